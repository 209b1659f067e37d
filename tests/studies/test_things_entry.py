"""The entry of the zoo for things: its choice, its tests, and the whole story with a tiny network."""

import keras
import numpy as np
import pytest

import tfdml
from recipes import things
from studies import pages, runner, things_entry


def test_images_have_the_size_that_a_network_takes():
    images = np.zeros((1, things.SIDE, things.SIDE, 3), np.uint8)
    images[:, ::2, ::2] = 10  # one pixel of four
    data = tfdml.datasets.LabeledSet(images=images, labels=np.zeros(1, int), class_names=("a",))
    small, large = (keras.Sequential([keras.Input((side, side, 3))]) for side in (things.SIDE // 2, things.SIDE))
    assert things_entry.fitting(data, large) is data
    halved = things_entry.fitting(data, small).images
    assert (halved.shape, halved.dtype, set(np.unique(halved))) == ((1, 64, 64, 3), np.uint8, {2})


def test_the_published_entry_is_the_best_trial_and_both_tests_are_in_its_table():
    trials, rows = runner.read_rows(things_entry.CHOICE), runner.read_rows(things_entry.ROWS)
    assert len(trials) == len(things_entry.TRIALS)
    assert {row["protocol"] for row in trials} == {"things/photograph-disjoint-validation/exact-cosine/v1"}
    best = max(trials, key=lambda row: row["map@r"])
    card = tfdml.zoo.card(things_entry.NAME, root=pages.ROOT / "savedmodels")
    assert best["layer"] in card.training["network"]
    assert f"learning rate {best['learning_rate']:g} " in card.training["optimizer"]
    first, *seeds = runner.where(rows, model=things_entry.NAME)
    assert [first["seed"], *(row["seed"] for row in seeds)] == [0, 1, 2]
    assert abs(first["things recall@1"] - card.metrics["recall@1"].value) < 1e-3
    page = things_entry.PAGE.read_text()
    assert pages.filled(page, {"things": things_entry.table(rows)}, "studies/things_entry", rows) == page


@pytest.mark.slow
def test_a_quick_run_trains_tests_and_writes_an_entry_that_loads(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(things_entry, "FOLDER", tmp_path)
    things_entry.main(["--quick"])
    assert "| things | 0.0 |" in capsys.readouterr().out
    root = tmp_path / "quick" / "savedmodels"
    card = tfdml.zoo.card(things_entry.NAME, root=root)
    assert card.protocol == "things/photograph-disjoint/exact-cosine/v1"
    assert tfdml.zoo.load(things_entry.NAME, root=root).output_shape == (None, things.DIM)
    things_entry.main(["--quick"])
    assert " trained: " not in capsys.readouterr().out
