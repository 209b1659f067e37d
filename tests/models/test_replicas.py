"""`fit` under tf.distribute: two replicas train, evaluate, export and resume."""

import numpy as np
import pytest

from tests.programs import replicas, result_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return result_of("replicas", tmp_path_factory.mktemp("replicas"))


def assert_same_training(one, other):
    """Equal weights and losses of two models, up to rounding."""
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(one.get(name, 0.0), other.get(name, 0.0), rtol=1e-5)
    for weights, expected in zip(one["weights"], other["weights"], strict=True):
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*replicas.SAME, "pairs"])
def test_two_replicas_compare_the_whole_batch_as_one_device_does(found, name):
    assert_same_training(found[f"{name} on replicas"], found[f"{name} on one device"])


def test_a_memory_and_a_learning_rate_make_a_difference(found):
    losses = [found[f"{name} on one device"]["loss"] for name in ("a loss", "a learning rate", "a memory")]
    assert len({round(loss, 3) for loss in losses}) == 3


def test_in_a_plain_model_each_replica_compares_its_own_half_of_a_batch(found):
    assert_same_training(found["keras.Model"], found["halves"])
    assert abs(found["keras.Model"]["loss"] - found["a loss on one device"]["loss"]) > 0.1


def test_what_a_loss_learns_and_draws_moves_and_stays_finite(found):
    story = found["whole story"]
    for before, after in zip(story["begin"], story["state"], strict=True):
        assert 0 < np.abs(np.subtract(after, before)).max() < np.inf


def test_steps_are_counted_once_for_all_replicas(found):
    assert found["whole story"]["steps"] == [2, 4, 4]


def test_a_resumed_run_equals_an_uninterrupted_one(found):
    assert found["whole story"]["resumed"] == found["whole story"]["state"]


def test_evaluation_sees_each_row_once(found):
    story = found["whole story"]
    assert story["recall"] == pytest.approx(story["by hand"])
    assert story["rows and sum"] == pytest.approx(story["rows and sum by hand"], rel=1e-5)
    np.testing.assert_allclose(story["embedded"], story["embedded by hand"], atol=1e-5)


def test_the_export_is_the_model_of_its_epoch(found):
    story = found["whole story"]
    np.testing.assert_allclose(story["served"], story["of the checkpoint"], atol=1e-5)


def test_several_steps_per_execution_are_refused_before_the_loop_of_keras_fails(found):
    assert found["several steps"].startswith("Received steps_per_execution=2 on 2 replicas, expected 1")


@pytest.mark.parametrize("option", ["gradient_accumulation_steps", "ema_overwrite_frequency"])
def test_options_of_an_optimizer_with_which_keras_fails_on_replicas_are_refused(found, option):
    assert found[option].startswith(f"Received an optimizer with {option}=2 on 2 replicas, expected none. Pass ")
