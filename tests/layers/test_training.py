"""What a loss learns and remembers in training: `fit` changes it, files keep it, and exports leave it out."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, numbers
from tests.layers.fitted import LABELS, X, embedding_model, trained
from tfdml import layers, losses

pytestmark = [pytest.mark.backends, pytest.mark.slow]

OLD = np.random.default_rng(1).standard_normal((3, 3)).astype("float32")
GROWING = keras.optimizers.schedules.PolynomialDecay(0.0, decay_steps=4, end_learning_rate=0.4)


def tree():
    made = layers.ClassTree(LABELS, levels=4)
    made.refresh(X, LABELS)
    return made


LOSSES = {
    "boundaries": lambda: losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS), nu=0.1),
    "proxies": lambda: losses.ProxyAnchorLoss(classes=4),
    "proxies and a schedule": lambda: losses.ArcFaceLoss(classes=4, margin=layers.Scheduled(GROWING), scale=8.0),
    "a memory": lambda: losses.MultiSimilarityLoss(pairing=layers.Memory(20, warm_up=2)),
    "fixed references": lambda: losses.NTXentLoss(pairing=layers.FixedReferences(OLD, LABELS[1:4]), temperature=0.2),
    "a tree": lambda: losses.HierarchicalTripletLoss(tree()),
}
GIVEN = ("fixed references", "a tree")  # training changes nothing of it


def state(model):
    """The weights of the network, then of the layers of its loss."""
    return [numbers(variable) for part in (model, *model.loss.layers) for variable in part.weights]


@pytest.mark.parametrize("name", LOSSES)
def test_fit_changes_the_layers_of_a_loss_and_a_file_trains_on_as_the_model(name, tmp_path):
    model = embedding_model(LOSSES[name](), jit_compile=XLA)
    before = state(model)
    trained(model, 3)
    of_loss = slice(len(model.weights), None)
    moved = [(x != y).any() for x, y in zip(before[of_loss], state(model)[of_loss], strict=True)]
    assert any(moved) != (name in GIVEN)
    model.evaluate(X, LABELS, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(state(model), state(again), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(state(trained(model, 2)), state(trained(again, 2)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    if BACKEND == "tensorflow" and name == "boundaries":
        model.export(tmp_path / "exported", verbose=False)
        import tensorflow as tf

        served = tf.saved_model.load(tmp_path / "exported")
        assert {tuple(variable.shape) for variable in served.variables} == {(4, 3), (3,)}
