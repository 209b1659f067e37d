"""Memory and time of a loss, value and gradient, over a whole batch and in blocks of anchors.

python benchmarks/blocks.py            # a quarter of an hour on two cores
python benchmarks/blocks.py --quick    # one loss over a small batch
"""

import keras
import numpy as np
import tensorflow as tf
from _report import Peak, options_of, rows_of_cases, timed, write_table

import tfdml
import tfdml.pairs.chunked
from tfdml._core.backends import value_and_vector_jacobian

LOSSES = ("NTXentLoss", "MultiSimilarityLoss", "MarginLoss", "LiftedStructureLoss", "HistogramLoss")


def measured(loss, rows, dim, anchors_per_block, mode, steps):
    """Peak memory beyond that of the embeddings, in MiB, and the least seconds of a step."""
    if loss == "products":
        return products(rows, dim, mode, steps)
    if anchors_per_block is None:
        tfdml.pairs.chunked.BLOCK_BYTES = 2**62  # no blocks
    if anchors_per_block == "auto":
        anchors_per_block = None
    labels = np.arange(rows, dtype="int32") // 4
    x = np.random.default_rng(0).standard_normal((rows, dim), dtype="float32")
    x = keras.ops.convert_to_tensor(x / np.linalg.norm(x, axis=1, keepdims=True))
    run = compiled(getattr(tfdml.losses, loss)(anchors_per_block=anchors_per_block), labels, mode)
    small = compiled(getattr(tfdml.losses, loss)(), labels[:64], mode)
    wait(small(x[:64]))
    return calls(lambda: wait(run(x)), steps)


def calls(function, number):
    """MiB of the peak of calls, and the least seconds of one; of several, the first compiles and does not count."""
    with Peak() as memory:
        seconds = [timed(function)[1] for _ in range(number)]
    return {"peak_mib": memory.mib, "step_s": min(seconds[1:] or seconds)}


def products(rows, dim, mode, steps):
    """The least seconds of the three products of any loss over pairs, of all rows at a time."""
    x = keras.ops.convert_to_tensor(np.random.default_rng(0).standard_normal((rows, dim), dtype="float32"))

    def three(x):
        s = keras.ops.matmul(x, keras.ops.transpose(x))
        return keras.ops.matmul(s, x), keras.ops.matmul(keras.ops.transpose(s), x)

    run = of_mode(three, mode)
    return calls(lambda: wait(run(x)), steps + 1)


def compiled(loss, labels, mode):
    """Value and gradient of a loss, as a function of embeddings."""
    return of_mode(lambda x: value_and_vector_jacobian(lambda x: loss(labels, x), [x], keras.ops.ones(())), mode)


def of_mode(function, mode):
    """A function as a graph of TensorFlow, or under XLA."""
    return tf.function(function, jit_compile=mode == "xla", autograph=False)


def wait(result):
    """Wait until a result has been computed."""
    for x in keras.tree.flatten(result):
        keras.ops.convert_to_numpy(x)


def cases(quick):
    """What is measured: both ways where the whole batch fits, and the largest batch; `losses.py` has 16,384 rows."""
    if quick:
        return [("NTXentLoss", 256, 64, size, "graph", 1) for size in (None, 64)]
    modes = ("graph", "xla")
    products = [("products", 4096, 512, None, mode, 5) for mode in modes]
    both = [(loss, 4096, 512, size, mode, 5) for mode in modes for loss in LOSSES for size in (None, 512)]
    return [*products, *both, *(("NTXentLoss", 65536, 512, "auto", mode, 1) for mode in modes)]


def main():
    """Measure all cases."""
    options = options_of(__doc__, "blocks.csv", case=measured)
    names = ("loss", "batch", "dim", "anchors_per_block", "mode")
    write_table(options.output, rows_of_cases(__file__, names, cases(options.quick), KERAS_BACKEND="tensorflow"))


if __name__ == "__main__":
    main()
