"""The training state of a run: what is kept when the model diverges."""

import warnings

import keras
import numpy as np
import pytest

from tests.worlds import linear
from tfdml import callbacks

pytestmark = pytest.mark.backends

X = np.ones((4, 2), "float32")


def model_of(optimizer="sgd"):
    return linear("mse", features=2, dim=1, optimizer=optimizer, run_eagerly=True)  # a few steps, not worth compiling


class Diverge(keras.callbacks.Callback):
    """Make a variable of the model or its optimizer NaN in the second epoch."""

    def __init__(self, variable):
        super().__init__()
        self.variable = variable

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            variable = self.variable(self.model)
            variable.assign(np.full(variable.shape, np.nan))


BROKEN = {
    "a weight": lambda model: model.layers[-1].kernel,
    "the optimizer": lambda model: next(v for v in model.optimizer.variables if "momentum" in v.path),
}


@pytest.fixture(scope="module")
def weights_after_two_epochs():
    model = model_of(keras.optimizers.SGD(0.01, momentum=0.9))
    model.fit(X, X[:, :1], epochs=2, verbose=0)
    return model.get_weights()


@pytest.mark.filterwarnings("ignore:The loss of epoch . is not finite")
@pytest.mark.parametrize("variable", BROKEN.values(), ids=BROKEN)
def test_a_state_that_is_not_finite_leaves_the_last_finite_one_and_says_so(
    variable, weights_after_two_epochs, tmp_path
):
    path = tmp_path / "last.keras"
    model = model_of(keras.optimizers.SGD(0.01, momentum=0.9))
    with pytest.warns(UserWarning, match=r"After epoch [23] the variable .* stays as it is: resume from it"):
        model.fit(X, X[:, :1], epochs=3, verbose=0, callbacks=[Diverge(variable), callbacks.TrainingCheckpoint(path)])
    resumed = keras.saving.load_model(path)
    assert resumed.steps == 1
    resumed.fit(X, X[:, :1], initial_epoch=1, epochs=2, verbose=0)
    for ours, theirs in zip(resumed.get_weights(), weights_after_two_epochs, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("more", [[], [keras.callbacks.TerminateOnNaN()]], ids=["alone", "TerminateOnNaN"])
def test_a_run_that_explodes_keeps_its_last_finite_state(more, tmp_path):
    path, model = tmp_path / "last.keras", model_of(keras.optimizers.SGD(1e15))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model.fit(X, X[:, :1], epochs=6, verbose=0, callbacks=[*more, callbacks.TrainingCheckpoint(path)])
    assert not np.isfinite(model.get_weights()[0]).all()
    assert np.isfinite(keras.saving.load_model(path).get_weights()[0]).all()
    assert any("is not finite" in str(one.message) for one in warned)


@pytest.mark.filterwarnings("ignore:The loss of epoch . is not finite")
def test_a_model_that_diverges_in_the_first_epoch_leaves_no_file_and_no_export(tmp_path):
    path, model = tmp_path / "last.keras", model_of()
    model.layers[-1].kernel.assign(np.full((2, 1), np.inf))
    with pytest.warns(UserWarning, match="there is no file: begin again"):
        model.fit(X, X[:, :1], verbose=0, callbacks=[callbacks.TrainingCheckpoint(path)])
    assert not path.exists()
