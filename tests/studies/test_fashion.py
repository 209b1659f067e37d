"""The study of Fashion-MNIST: its parts, its choice, and its rows."""

import zlib
from dataclasses import asdict

import numpy as np
import pytest

import tfdml
from studies import fashion, runner

PIXELS = np.arange(2000).reshape(-1, 1, 1, 1)
DATA = tfdml.datasets.LabeledSet(images=PIXELS, labels=np.arange(2000) % 10, class_names=fashion.NAMES)
NAMES = np.array(fashion.NAMES)


def classes(data):
    return set(np.array(data.class_names)[np.unique(data.labels)])


@pytest.mark.parametrize(("half", "members"), fashion.HALVES.items())
def test_settings_are_chosen_on_classes_that_are_neither_trained_nor_tested(half, members):
    trained, validation = fashion.parts(fashion.Run(half, "", (), 0.1), DATA, DATA)
    whole, test = fashion.parts(fashion.Run(half, "", (), 0.1, part="test"), DATA, DATA)
    assert classes(whole) == set(NAMES[list(members)]) == classes(trained) | classes(validation)
    assert not classes(trained) & classes(validation)
    assert classes(test) == set(NAMES) - classes(whole)


def measured(run):
    """A result whose numbers are decided by its settings."""
    score = zlib.crc32(runner.name_of(run).encode()) % 1000 / 1000
    scores = dict.fromkeys(("recall@1", "map@r") if run.half == fashion.ALL else fashion.SCORES, score)
    about = {"core_seconds": 1.0, "protocol": "p", "hardware": "h", "versions": "v"}
    return {"run": asdict(run), "scores": scores, **about}


def test_the_trial_with_the_highest_map_at_r_is_repeated_with_every_seed(tmp_path):
    options = runner.Options(fashion.Run("", "", (), 0.0), measured, tmp_path, seeds=(1, 2), workers=1)
    rows = fashion.rows(options, losses=("triplet",), halves=("first", fashion.ALL))
    for half in ("first", fashion.ALL):
        trials = runner.where(rows, half=half, part="validation")
        assert [trial["seed"] for trial in trials] == [0] * 4
        best = max(trials, key=lambda row: row["map@r"])
        tested = runner.where(rows, half=half, part="test")
        assert [row["seed"] for row in tested] == [1, 2]
        assert {(row["settings"], row["learning_rate"]) for row in tested} == {
            (best["settings"], best["learning_rate"])
        }
