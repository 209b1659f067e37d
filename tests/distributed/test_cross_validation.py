"""Folds on a cluster give the trials of one machine."""

import pytest

from tests.distributed.embedded import Projection, labeled_set
from tfdml import distributed, evaluation

pytestmark = pytest.mark.slow


def train(settings, training, seed):
    """A model without training whose quality depends on a setting."""
    return Projection(scale=settings["scale"] if len(training) % 2 else -settings["scale"])


def failing(settings, training, seed):
    raise ValueError("this training fails")


def space(trial):
    return {"scale": trial.suggest_float("scale", 0.1, 2.0)}


def test_trials_are_those_of_one_machine_and_a_search_goes_on(cluster, tmp_path):
    alone = evaluation.cross_validate(train, labeled_set(), space, tmp_path / "alone", folds=3, trials=3)
    evaluation.cross_validate(train, labeled_set(), space, tmp_path / "together", folds=3, trials=1)
    together = distributed.cross_validate(train, labeled_set(), space, tmp_path / "together", folds=3, trials=3)
    assert [trial.settings for trial in together.trials] == [trial.settings for trial in alone.trials]
    assert [trial.folds for trial in together.trials] == [trial.folds for trial in alone.trials]


def test_the_error_of_a_training_is_raised(cluster, tmp_path):
    with pytest.raises(ValueError, match="this training fails"):
        distributed.cross_validate(failing, labeled_set(), space, tmp_path / "search", folds=2, trials=1)
