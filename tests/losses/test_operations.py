"""Operations of losses on a small batch, where each costs more than its numbers: they stay as few as they are."""

import keras
import numpy as np
import pytest

from tfdml import losses

BATCH = 48
# Operations of the graph of value and gradient on TensorFlow 2.20, and of them those that return a matrix of pairs.
LIMITS = {
    losses.ContrastiveLoss: (145, 40),
    losses.MultiSimilarityLoss: (141, 38),
    losses.NCALoss: (161, 38),
    losses.GeneralizedLiftedLoss: (159, 42),
    losses.NTXentLoss: (121, 40),
}
# Other versions of TensorFlow differ a little.
SLACK = 1.05


def operations(loss):
    """Number of operations of the graph of value and gradient, and of them those that return a matrix of pairs."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((BATCH,), tf.int32), tf.TensorSpec((BATCH, 8))])
    def value_and_gradient(labels, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(labels, x)
        return value, tape.gradient(value, x)

    found = [x for x in value_and_gradient.get_concrete_function().graph.get_operations() if x.type != "Const"]
    return len(found), sum(any(y.shape == (BATCH, BATCH) for y in x.outputs) for x in found)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="counts operations of TensorFlow")
@pytest.mark.parametrize("loss", LIMITS)
def test_a_graph_has_few_operations(loss):
    assert np.all(np.array(operations(loss())) <= np.array(LIMITS[loss]) * SLACK)
