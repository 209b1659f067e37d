"""Memory and time of a loss, value and gradient, over a whole batch and in blocks of anchors.

python benchmarks/blocks.py            # a quarter of an hour on two cores
python benchmarks/blocks.py --quick    # one loss over a small batch
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time

from _report import RESULTS, print_table, write_csv

import tfdml

LOSSES = ("NTXentLoss", "MultiSimilarityLoss", "MarginLoss", "LiftedStructureLoss", "HistogramLoss")


def measured(loss, rows, dim, anchors_per_block, mode, steps):
    """Peak memory beyond that of the embeddings, in MiB, and the least seconds of a step."""
    import keras
    import numpy as np

    import tfdml
    import tfdml.pairs.chunked

    if anchors_per_block is None:
        tfdml.pairs.chunked.BLOCK_BYTES = 2**62  # no blocks
    if anchors_per_block == "auto":
        anchors_per_block = None
    rng = np.random.default_rng(0)
    labels = np.arange(rows, dtype="int32") // 4
    x = rng.standard_normal((rows, dim), dtype="float32")
    x = keras.ops.convert_to_tensor(x / np.linalg.norm(x, axis=1, keepdims=True))
    run = compiled(getattr(tfdml.losses, loss)(anchors_per_block=anchors_per_block), labels, mode)
    small = compiled(getattr(tfdml.losses, loss)(), labels[:64], mode)
    wait(small(x[:64]))
    memory, seconds = Peak(), []
    for _ in range(steps):
        begin = time.perf_counter()
        wait(run(x))
        seconds.append(time.perf_counter() - begin)
    return {"peak_mib": memory.stop(), "step_s": min(seconds[1:] or seconds)}


def products(rows, dim, mode, steps):
    """The least seconds of the three products of any loss over pairs, of all rows at a time."""
    import keras
    import numpy as np

    x = keras.ops.convert_to_tensor(np.random.default_rng(0).standard_normal((rows, dim), dtype="float32"))

    def three(x):
        s = keras.ops.matmul(x, keras.ops.transpose(x))
        return keras.ops.matmul(s, x), keras.ops.matmul(keras.ops.transpose(s), x)

    run, seconds = of_mode(three, mode), []
    memory = Peak()
    for _ in range(steps + 1):
        begin = time.perf_counter()
        wait(run(x))
        seconds.append(time.perf_counter() - begin)
    return {"peak_mib": memory.stop(), "step_s": min(seconds[1:])}


def compiled(loss, labels, mode):
    """Value and gradient of a loss, as a function of embeddings."""
    from tfdml._core.backends import value_and_vector_jacobian

    def value_and_gradient(x):
        import keras

        return value_and_vector_jacobian(lambda x: loss(labels, x), [x], keras.ops.ones(()))

    return of_mode(value_and_gradient, mode)


def of_mode(function, mode):
    """A function as a graph of TensorFlow, or under XLA."""
    import tensorflow as tf

    return tf.function(function, jit_compile=mode == "xla", autograph=False)


def wait(result):
    """Wait until a result has been computed."""
    import keras

    for x in keras.tree.flatten(result):
        keras.ops.convert_to_numpy(x)


class Peak:
    """The peak of the memory of this process from now on."""

    def __init__(self):
        import psutil

        self._process, self._done = psutil.Process(), threading.Event()
        self._before = self._peak = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self):
        while not self._done.wait(0.005):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def stop(self):
        """MiB above the memory at the start."""
        self._done.set()
        self._thread.join()
        return (self._peak - self._before) / 2**20


def row(case):
    """One case, in its own process."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    numbers = json.loads(done.stdout.splitlines()[-1])
    names = ("loss", "batch", "dim", "anchors_per_block", "mode")
    cells = dict(zip(names, (case["loss"], case["rows"], case["dim"], case["size"] or "-", case["mode"]), strict=True))
    return {**cells, **numbers, **tfdml.environment()}


def of_case(case):
    """The numbers of one case, in this process."""
    if case["loss"] == "products":
        return products(case["rows"], case["dim"], case["mode"], case["steps"])
    return measured(*(case[name] for name in ("loss", "rows", "dim", "size", "mode", "steps")))


def cases(quick):
    """What is measured: both ways where the whole batch fits, and the largest batch; `losses.py` has 16,384 rows."""
    if quick:
        return [case("NTXentLoss", 256, 64, size, "graph", 1) for size in (None, 64)]
    modes = ("graph", "xla")
    products = [case("products", 4096, 512, None, mode, 5) for mode in modes]
    both = [case(loss, 4096, 512, size, mode, 5) for mode in modes for loss in LOSSES for size in (None, 512)]
    largest = [case("NTXentLoss", 65536, 512, "auto", mode, 1) for mode in modes]
    return [*products, *both, *largest]


def case(loss, rows, dim, size, mode, steps):
    """One case by name."""
    return {"loss": loss, "rows": rows, "dim": dim, "size": size, "mode": mode, "steps": steps}


def main():
    """Measure all cases, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="one loss over a small batch")
    parser.add_argument("--output", default=RESULTS / "blocks.csv", help="the file of the results")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(of_case(arguments.case)))
        return
    rows = []
    for each in cases(arguments.quick):
        rows.append(row(each))
        print_table(rows[-1:], list(rows[-1])[:7])
        write_csv(arguments.output, rows)


if __name__ == "__main__":
    main()
