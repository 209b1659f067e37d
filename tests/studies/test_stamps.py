"""The study of stamps: objects, their split and images, and the rows of a quick run."""

import zlib
from dataclasses import asdict

import numpy as np
import pytest
from PIL import Image

from studies import runner, stamps


def test_an_object_loses_its_border_and_its_images_depend_on_nothing_else():
    picture = np.zeros((40, 60, 4), np.uint8)
    picture[10:20, 5:35] = 200, 30, 30, 255
    cut = stamps.cutout(Image.fromarray(picture))
    assert cut.size == (30, 10)
    assert stamps.cutout(Image.fromarray(picture).resize((6000, 4000), Image.Resampling.NEAREST)).size == (256, 85)
    first, again, other = (stamps.part([("a", cut), ("b", cut)], name) for name in ("test", "test", "train"))
    np.testing.assert_array_equal(first.images, again.images)
    assert (first.images != other.images).any()
    assert first.labels.tolist() == [0] * stamps.VIEWS + [1] * stamps.VIEWS
    assert (first.protocol, other.protocol) == (
        "stamps/object-disjoint/exact-cosine/v1",
        "stamps/object-disjoint-train/exact-cosine/v1",
    )
    assert first.images.shape == (2 * stamps.VIEWS, 128, 128, 3)


def test_objects_are_in_one_part():
    rows = np.arange(320)
    parts = [set(rows[part]) for part in stamps.OBJECTS.values()]
    assert [len(part) for part in parts] == [160, 80, 80]
    assert len(set.union(*parts)) == 320


def test_strangers_are_the_objects_without_an_item():
    labels = np.repeat(np.arange(4), stamps.VIEWS)
    assert stamps.with_strangers(np.eye(4)[labels], labels) == 1.0
    assert stamps.with_strangers(np.eye(4)[labels // 2], labels) == 0.0  # a stranger looks like a known object


def measured(run):
    """A result whose numbers are decided by its settings."""
    score = zlib.crc32(runner.name_of(run).encode()) % 1000 / 1000
    scores = {"recall@1": score, "map@r": score, stamps.STRANGERS: score}
    queries = {key: [score] * (2 * stamps.VIEWS) for key in stamps.KEYS}
    about = {"trained": 0.5, "core_seconds": 1.0, "protocol": "p", "hardware": "h", "versions": "v"}
    return {"run": asdict(run), "scores": scores, "queries": queries, **about}


def test_the_rate_with_the_highest_map_at_r_is_repeated_with_every_seed_and_the_gain_is_over_the_frozen_network(
    tmp_path,
):
    options = runner.Options(stamps.Run(), measured, tmp_path, seeds=(1, 2), workers=1)
    rows = stamps.rows(options, stamps.NETWORKS[:1])
    for way, rates in stamps.RATES.items():
        trials = runner.where(rows, way=way, part="validation")
        assert [trial["learning_rate"] for trial in trials] == list(rates)
        tested = runner.where(rows, way=way, part="test")
        assert [row["seed"] for row in tested] == [1, 2]
        assert {row["learning_rate"] for row in tested} == {max(trials, key=lambda row: row["map@r"])["learning_rate"]}
    (frozen,) = runner.where(rows, way=stamps.UNTRAINED)
    better = frozen | {
        "recall@1 by object": " ".join(str(float(x) + 0.25) for x in frozen["recall@1 by object"].split())
    }
    assert stamps.gain([better], [frozen]).startswith("+25.0 [")


@pytest.mark.slow
def test_a_quick_run_measures_a_network_as_it_is_and_after_three_ways_of_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stamps, "FOLDER", tmp_path)
    stamps.main(["--quick"])
    assert "11 rows" in capsys.readouterr().out
