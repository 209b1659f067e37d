"""`EmbeddingModel.export` writes what `keras.Model.export` writes: the same inputs, outputs and names."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import losses, models

X = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")


def of_forms(model):
    """Models by the form of their inputs and outputs, each with what it is called with."""
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    narrow, wide = keras.layers.Dense(2), keras.layers.Dense(4)
    return {
        "one": (model(a, narrow(a)), X),
        "a list of one": (model([a], narrow(a)), [X]),
        "a list": (model([b, a], narrow(a) + 2 * narrow(b)), [X, -X]),
        "a dict": (model({"b": b, "a": a}, narrow(a) + 2 * narrow(b)), {"a": X, "b": -X}),
        "a dict of outputs": (model(a, {"z": narrow(a), "y": wide(a)}), X),
        "a list of outputs": (model(a, [wide(a), narrow(a)]), X),
    }


def served(model, path, x):
    """What the export answers, and the names and shapes of its inputs and outputs."""
    model.export(path, verbose=False)
    loaded = tf.saved_model.load(path)
    signature = loaded.signatures["serving_default"]
    named = signature.structured_input_signature[1], signature.structured_outputs
    shapes = [{name: tuple(x.shape) for name, x in tensors.items()} for tensors in named]
    return tf.nest.map_structure(lambda output: output.numpy(), loaded.serve(x)), shapes


@pytest.mark.slow
@pytest.mark.parametrize("form", of_forms(keras.Model))
def test_inputs_outputs_and_names_are_those_of_keras(form, tmp_path):
    (model, x), (keras_model, _) = of_forms(models.EmbeddingModel)[form], of_forms(keras.Model)[form]
    model.set_weights(keras_model.get_weights())
    (output, shapes), (expected, expected_shapes) = (
        served(model, tmp_path / "a", x),
        served(keras_model, tmp_path / "b", x),
    )
    assert shapes == expected_shapes
    tf.nest.map_structure(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5), output, expected)


class Normalized(models.EmbeddingModel):
    """A model with a call of its own."""

    def call(self, inputs, training=None, mask=None):
        return keras.ops.normalize(super().call(inputs, training=training, mask=mask))


@pytest.mark.slow
def test_the_call_of_a_subclass_is_exported(tmp_path):
    inputs = keras.Input((3,))
    model = Normalized(inputs, keras.layers.Dense(2)(inputs))
    model.compile("sgd", loss=losses.ProxyAnchorLoss(classes=3))
    np.testing.assert_allclose(served(model, tmp_path / "export", X)[0], model.predict(X, verbose=0), rtol=1e-5)
