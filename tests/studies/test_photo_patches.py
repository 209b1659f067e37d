"""The study of photo patches: orientations of batches, rows, tables, and the whole story on a few places."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

import tfdml
from recipes import patches
from studies import pages, photo_patches, runner
from tfdml.datasets.photo_patches.patches import PhotoPatches


def random_part(name):
    """Twenty places with eight random views each, in two photographs."""
    labels = np.repeat(np.arange(20), 8)
    return PhotoPatches(
        images=np.random.default_rng(len(name)).integers(0, 256, (160, 64, 64, 3), dtype=np.uint8),
        labels=labels,
        class_names=tuple(map(str, range(20))),
        photographs=labels % 2,
        places=np.zeros((160, 2), np.int64),
        views=np.tile(np.arange(8), 20),
        photograph_names=("one", "two"),
        protocol=name,
    )


def some_windows(pair, embed, *, window):
    """Stands in for `stereo_error`: the shape of the embeddings of two windows."""
    assert embed(np.zeros((2, window, window, 3), np.uint8)).shape[0] == 2
    return 0.5


@pytest.fixture
def random_data(monkeypatch):
    monkeypatch.setattr(tfdml.datasets, "photo_patches", lambda splits: [random_part(name) for name in splits])
    monkeypatch.setattr(patches, "motorcycle_stereo", lambda: SimpleNamespace(protocol="pair"))
    monkeypatch.setattr(patches, "stereo_error", some_windows)
    monkeypatch.setattr(photo_patches.baselines, "PAIRS", 500)
    monkeypatch.setitem(photo_patches.UNTRAINED, "SIFT", photo_patches.baselines.pixels)


@pytest.mark.slow
def test_a_quick_run_leaves_rows_and_a_picture_and_trains_nothing_twice(random_data, tmp_path, capsys):
    arguments = ["--quick", "--workers", "1", "--output", str(tmp_path)]
    photo_patches.main(arguments)
    assert capsys.readouterr().out.count(" trained: ") == 6  # two seeds, with test and stereo pair; one is the trial
    rows = list(csv.DictReader((tmp_path / "photo_patches.csv").read_text().splitlines()))
    assert [row["seed"] for row in rows] == ["none"] * 3 + ["0", "1", "mean", "standard deviation"]
    assert {row["protocol"] for row in rows} == {"test/first-16-places"}
    assert float(rows[5]["recall@1"]) == pytest.approx((float(rows[3]["recall@1"]) + float(rows[4]["recall@1"])) / 2)
    pair = list(csv.DictReader((tmp_path / "photo_patches_stereo.csv").read_text().splitlines()))
    assert [row["stereo@32"] for row in pair] == ["0.5"] * 4 + ["0.0"]
    assert {row["protocol"] for row in pair} == {"pair"}
    (trial,) = csv.DictReader((tmp_path / "photo_patches_choice.csv").read_text().splitlines())
    assert trial["protocol"] == "validation/first-16-places"
    assert (tmp_path / "photo-patches.png").read_bytes().startswith(b"\x89PNG")
    photo_patches.main(arguments)
    assert " trained: " not in capsys.readouterr().out


def test_the_published_networks_are_those_of_the_choice():
    (rows,) = [runner.where(runner.read_rows(photo_patches.ROWS), method=photo_patches.TRAINED)]
    seeds = [row["seed"] for row in rows if not isinstance(row["seed"], str)]
    assert seeds == [run.seed for run in photo_patches.Setting(pages.ROOT).runs]
