"""Several steps in one call of the compiled function: the same run."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, numbers
from tfdml import callbacks, layers, losses, miners, models, samplers

pytestmark = [
    pytest.mark.backends,
    pytest.mark.slow,
    pytest.mark.skipif(BACKEND == "torch", reason="Keras refuses steps_per_execution on PyTorch"),
]

X = np.random.default_rng(0).standard_normal((48, 5)).astype("float32")
LABELS = np.arange(48) // 6
STEPS = 8


def build(steps_per_execution):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,))
    x = keras.layers.Dropout(0.2, seed=1)(inputs)
    model = models.EmbeddingModel(inputs, keras.layers.Dense(4)(x))
    loss = losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS), miner=miners.BalancedPairs(seed=0))
    model.compile(keras.optimizers.Adam(0.01), loss=loss, steps_per_execution=steps_per_execution)
    return model


def fit(model, epochs, *watch):
    sampler = samplers.GroupSampler(classes_per_batch=4, examples_per_class=3, seed=0)
    return model.fit(
        sampler.batches(X, LABELS, start=model.steps),
        steps_per_epoch=STEPS,
        initial_epoch=model.steps // STEPS,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=list(watch),
    ).history


def require_equal(ours, theirs):
    for one, other in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_allclose(numbers(one), numbers(other), rtol=1e-6, atol=1e-7)


@pytest.fixture(scope="module")
def one_at_a_time(tmp_path_factory):
    """A model after two epochs of single steps, and its logs."""
    model = build(1)
    return model, fit(model, 2, *watching(tmp_path_factory.mktemp("one")))


def watching(folder):
    return [
        callbacks.RetrievalEvaluation((X, LABELS), k=1),
        callbacks.PairDiagnostics(X, LABELS, path=folder / "logs"),
        callbacks.TrainingCheckpoint(folder / "state.keras"),
    ]


def test_four_steps_per_execution_give_the_weights_and_the_logs_of_one(one_at_a_time, tmp_path):
    expected, expected_logs = one_at_a_time
    model = build(4)
    logs = fit(model, 2, *watching(tmp_path))
    assert model.steps == 2 * STEPS
    require_equal(model, expected)
    assert set(logs) == set(expected_logs)
    for name, values in logs.items():
        np.testing.assert_allclose(values, expected_logs[name], rtol=1e-5, err_msg=name)


def test_a_file_resumes_with_its_steps_per_execution(one_at_a_time, tmp_path):
    path = tmp_path / "state.keras"
    fit(build(4), 1, callbacks.TrainingCheckpoint(path))
    again = keras.saving.load_model(path)
    assert (again.steps, again.steps_per_execution) == (STEPS, 4)
    fit(again, 2)
    require_equal(again, one_at_a_time[0])


def test_an_epoch_that_ends_within_an_execution_is_refused():
    model = build(3)
    with pytest.raises(ValueError, match=r"steps_per_epoch=8 with steps_per_execution=3.*Pass steps_per_epoch=6"):
        fit(model, 1)
    assert model.steps == 0
