"""Operations of losses stay as few as they are: all on a small batch, products of pairs on a batch in blocks."""

import keras
import numpy as np
import pytest

from tests.losses.rows import DEFAULTS, LISTED, WHOLE, lacking, law
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


# A loss compares all blocks in one loop, with three products of pairs in each step: the similarities, and the gradients
# by anchors and by references. These take more loops, one product each but for the last, or more products in them.
BY_COLUMNS = "columns have a logarithm of a sum over anchors: a loop for it, and one for the derivative of the loss by it"
BY_MEANS = "means of the batch: a loop for them, and one for its derivatives by what is not linear in them"
BY_PARTS = "a loss for each part of the embedding, with three products each"
OF_CLASSES = "sums of rows by class are products, too"
OF_MINER = "its miner has a distance of its own"
MORE = {
}
of_tensorflow = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="counts operations of TensorFlow")


def graph(loss, size):
    """The graph of value and gradient."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((size,), tf.int32), tf.TensorSpec((size, 5))], autograph=False)
    def value_and_gradient(labels, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(labels, x)
        return value, tape.gradient(value, x)

    return value_and_gradient.get_concrete_function().graph


def operations(loss):
    """Number of operations of the graph of value and gradient, and of them those that return a matrix of pairs."""
    found = [x for x in graph(loss, BATCH).get_operations() if x.type != "Const"]
    return len(found), sum(any(y.shape == (BATCH, BATCH) for y in x.outputs) for x in found)


def products_of_loops(loss):
    """The number of matrix products in a step of each loop of value and gradient, of loops that have any."""
    tensors = graph(loss, BATCH)
    definition = tensors.as_graph_def()
    functions = {function.signature.name: function for function in definition.library.function}

    def products(loop):
        body = functions[loop.attr["body"].func.name]
        inside = used(body.node_def, body.ret.values())
        return sum(x.op == "MatMul" for x in inside) + sum(map(products, loops_among(inside)))

    found = map(products, loops_among(used(definition.node, [x.name for x in tensors.outputs])))
    return [number for number in found if number]


def used(nodes, results):
    """The nodes that results depend on, in their order."""
    by_name, names = {node.name: node for node in nodes}, set()
    remaining = list(results)
    while remaining:
        name = remaining.pop().lstrip("^").split(":")[0]
        if name in by_name and name not in names:
            names.add(name)
            remaining += by_name[name].input
    return [node for node in nodes if node.name in names]


def loops_among(nodes):
    return [node for node in nodes if node.op in ("While", "StatelessWhile")]


@of_tensorflow
@law(lacking(DEFAULTS, WHOLE, LISTED))
def test_blocks_take_three_products_or_say_why_more(row):
    name = next(name for name, other in DEFAULTS.items() if other is row)
    expected, _ = MORE.get(name, ([3], "similarities and two gradients"))
    assert products_of_loops(row.with_options(anchors_per_block=BATCH // 3)) == expected


@of_tensorflow
@pytest.mark.parametrize("loss", LIMITS)
def test_a_graph_has_few_operations(loss):
    assert np.all(np.array(operations(loss())) <= np.array(LIMITS[loss]) * SLACK)
