"""The study of metrics on fixed features: its table is the measured one, and its runs work."""

import numpy as np
import pytest

from studies import fixed_features, runner

ROWS = runner.read_rows(fixed_features.ROWS)


def test_every_metric_has_every_split():
    runs = {(row["data"], row["metric"], row["seed"]) for row in ROWS}
    assert len(runs) == len(ROWS) == len(fixed_features.SETS) * len(fixed_features.METRICS) * len(fixed_features.SEEDS)


def test_metrics_without_training_have_the_errors_of_the_rows():
    for name in ("raw", "euclidean", "whitened"):
        (kept,) = runner.where(ROWS, data="wine", metric=name, seed=0)
        assert fixed_features.row("wine", name, 0)["error"] == pytest.approx(kept["error"], abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Xing", "LMNN"])
def test_a_learned_metric_is_a_map_of_the_features(name):
    train, labels, test, _ = fixed_features.split("wine", 0)
    train, test = fixed_features.standardized(train, test)
    transform = fixed_features.metric(name, train, labels, steps=3)
    assert transform(test).shape == test.shape
    assert not np.allclose(transform(test), test)
