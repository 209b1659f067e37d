"""One way to compute losses, in its own process, so that its memory can be measured.

    python benchmarks/_loss_worker.py graph|xla|three_products|pytorch_metric_learning|tensorflow_addons loss

Reads lines of JSON from its input: {"batch": 64, "dim": 512} makes a batch, computes and answers with the loss and the
peak of memory, in MiB above that of the process after one small batch: compilation is included, loading libraries is
not. "call" computes once more and answers with its seconds.
"""

import functools
import json
import os
import resource
import sys
import time
from pathlib import Path

if sys.argv[1:2] == ["tensorflow_addons"]:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # must be set before TensorFlow is imported

from _peers import (
    batch,
    ours,
    pytorch_metric_learning,
    tensorflow_addons,
    torch_value_and_gradient,
    value_and_gradient,
)

# A way that needs more counts as out of memory.
MEMORY_LIMIT = 16 * 2**30


def three_products(x, references=None, *, jit_compile=False):
    """The similarities of x and the references, x by default, and two products of their size.

    Any loss over pairs must do that. Returns the function to time.
    """
    import tensorflow as tf

    @tf.function(jit_compile=jit_compile)
    def run(x, references):
        s = tf.matmul(x, references, transpose_b=True)
        return tf.matmul(s, references), tf.matmul(s, x, transpose_a=True)

    x = tf.constant(x)
    references = x if references is None else tf.constant(references)

    def call():
        for part in run(x, references):
            part.numpy()
        return 0.0

    return call


def way(name, loss):
    """A function of labels and embeddings that returns the function to time."""
    if name == "three_products":
        return lambda labels, x: three_products(x)
    if name == "pytorch_metric_learning":
        return functools.partial(torch_value_and_gradient, pytorch_metric_learning()[loss])
    theirs = tensorflow_addons() if name == "tensorflow_addons" else ours()
    return lambda labels, x: value_and_gradient(theirs[loss], labels, x, jit_compile=name == "xla")


def memory(what):
    """VmHWM (peak) or VmRSS (now) of this process in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def serve(make, small):
    """Answer requests until the input ends.

    Args:
        make: function without arguments that returns `prepare`: a function of a request that returns the function to
            time, which returns the loss.
        small: request of the batch that is computed before memory is measured.
    """
    answers = os.fdopen(os.dup(1), "w")  # libraries may print to the old one
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    prepare = make()
    prepare(small)()
    before, run = memory("VmRSS"), None
    for line in sys.stdin:
        request = json.loads(line)
        if request == "call":
            begin = time.perf_counter()
            run()
            answer = time.perf_counter() - begin
        else:
            run = prepare(request)
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak
            answer = {"value": run(), "mebibytes": memory("VmHWM") - before}
        print(json.dumps(answer), file=answers, flush=True)


def main():
    """Answer for the way and the loss of the command line."""
    name, loss = sys.argv[1:]
    examples_per_class = 2 if loss == "n-pairs" else 4

    def make():
        prepare = way(name, loss)
        return lambda size: prepare(*batch(size["batch"], size["dim"], examples_per_class=examples_per_class))

    serve(make, {"batch": 64, "dim": 16})


if __name__ == "__main__":
    main()
