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


# A loss compares all blocks in one loop, with three products of pairs in a step: the similarities, and the gradients by
# anchors and by references. These losses take more: the products in a step of each loop, and why.
IN_COLUMNS = "sums over the anchors for each reference: a loop for them, and one for the derivative by them"
OF_BATCH = "a statistic of all pairs of the batch: a loop for it; the derivative of the loss by it reads no pairs"
OF_DEVIATIONS = "deviations from a statistic of all pairs: a loop for each, and one for the derivative by the first"
OF_PARTS = "the products of each part of the embedding, or of each loss"
OF_CLASSES = "sums over the rows of a class are products, too"
OF_MINER = "its miner computes distances of its own"
MORE = {
    "CLIP": ([1, 1, 3], IN_COLUMNS),
    "lifted structure": ([1, 1, 3], IN_COLUMNS),
    "histogram": ([1, 3], OF_BATCH),
    "Xing": ([1, 3], OF_BATCH),
    "threshold consistency": ([1, 3], OF_BATCH),
    "proxy anchor": ([1, 3], OF_BATCH),
    "dynamic soft margin": ([1, 3], OF_BATCH),
    "global": ([1, 1, 3], OF_DEVIATIONS),
    "intra-pair variance": ([1, 1, 3], OF_DEVIATIONS),
    "robust, KL": ([1, 1, 3], OF_DEVIATIONS),
    "angular": ([1, 3], "products of its own for each positive of an anchor"),
    "matryoshka": ([6], OF_PARTS),
    "boosted": ([7], OF_PARTS),
    "divergence": ([15], OF_PARTS),
    "adversarial": ([12], OF_PARTS),
    "LMNN": ([4], OF_MINER),
    "RAW": ([4], OF_MINER),
    "PDDM": ([4, 40], "a network that compares pairs"),
    "coupled clusters": ([5], OF_CLASSES),
    "centroid triplet": ([1, 3, 2, 5], OF_CLASSES),
    "magnet": ([1, 1, 2, 3, 2, 5], OF_CLASSES),
    "prototypical": ([1, 3, 5], OF_CLASSES),
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
    expected, _ = MORE.get(name, ([3], "the three of any loss over pairs"))
    assert products_of_loops(row.with_options(anchors_per_block=BATCH // 3)) == expected


@of_tensorflow
@pytest.mark.parametrize("loss", LIMITS)
def test_a_graph_has_few_operations(loss):
    assert np.all(np.array(operations(loss())) <= np.array(LIMITS[loss]) * SLACK)
