"""The study of few-shot training: its paired differences."""

from types import SimpleNamespace

import numpy as np
import pytest

import tfdml
from studies import few_shot


def test_gains_are_differences_on_the_same_episodes():
    rng = np.random.default_rng(0)
    labels, designs = np.repeat(np.arange(101), 10), np.tile(np.arange(10), 101)
    centers = rng.normal(size=(101, 8))[labels]
    noisy, better = (centers + scale * rng.normal(size=(1010, 8)) for scale in (0.8, 0.4))
    test = SimpleNamespace(labels=labels, designs=designs)
    measured = [("metric", 0, noisy, 1.0), (few_shot.BEST, 0, noisy, 0.0), (few_shot.THREE, 0, noisy, 0.0)]
    gains = list(few_shot.gains([*measured, (few_shot.TUNED, 3, better, 1.0)], test))
    assert [(gain["kind"], gain["against"], gain["seed"]) for gain in gains] == [
        (few_shot.THREE, few_shot.BEST, 0),
        (few_shot.TUNED, few_shot.THREE, 3),
        (few_shot.TUNED, few_shot.BEST, 3),
    ]
    assert gains[0]["gain"] == gains[0]["interval"] == 0  # the same embeddings, on the same episodes
    options = {"ways": 100, "shots": 1, "queries": 4, "groups": designs, "metric": "cosine"}
    scores = [tfdml.metrics.few_shot(x, labels, **options)["accuracy"] for x in (better, noisy)]
    assert gains[1]["gain"] == pytest.approx(scores[0] - scores[1])
    assert 0 < gains[1]["interval"] < gains[1]["gain"]
