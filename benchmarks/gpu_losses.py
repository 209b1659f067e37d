"""Value and gradient of a loss on an accelerator: ours on JAX with XLA, the same loss in pytorch-metric-learning.

Both run on the same card; every call is waited for, and the first ones do not count. It needs JAX and PyTorch, and no
TensorFlow. Where one of them fails, its column says how and the run continues; the exit status is 1 if ours failed.

    KERAS_BACKEND=jax python benchmarks/gpu_losses.py            # on a machine with a GPU
    KERAS_BACKEND=jax python benchmarks/gpu_losses.py --quick    # one small size; --no-peers leaves PyTorch out
"""

import functools
import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the peer needs memory of the same card

import jax
from _peers import OF_ADDONS, SIZES, arguments_of, batch, check, ours, peer_value_and_gradient
from _report import hardware, median_seconds, print_table, today, versions, write_csv

PEERS = {"torch": "torch", "pytorch_metric_learning": "pytorch-metric-learning"}


def three_products(x):
    """The similarities of a batch, and two products of their size with it, in full float32."""
    with jax.default_matmul_precision("float32"):
        s = x @ x.T
        return s @ x, s.T @ x


def ways(name, labels, x, *, with_peer):
    """Functions without arguments, each of which computes in one way and waits for the result."""
    loss, jax_labels, jax_x = ours()[name], jax.device_put(labels), jax.device_put(x)
    value_and_gradient = jax.jit(jax.value_and_grad(lambda v: loss(jax_labels, v)))
    products = jax.jit(three_products)
    found = {
        "ours": lambda: jax.block_until_ready(value_and_gradient(jax_x)),
        "three_products": lambda: jax.block_until_ready(products(jax_x)),
    }
    peer = functools.cache(lambda: peer_value_and_gradient(name, labels, x))  # made where its failure is caught
    return found | ({"peer": lambda: peer()()} if with_peer else {})


def milliseconds(functions, *, repeats):
    """Median milliseconds of each function, or why it failed."""
    failed = {}

    def guarded(name):
        def call():
            try:
                return None if name in failed else functions[name]()
            except Exception as error:
                failed[name] = reason(error)

        return call

    seconds = median_seconds({name: guarded(name) for name in functions}, repeats=repeats)
    return {name: failed.get(name, 1e3 * value) for name, value in seconds.items()}


def reason(error):
    """Why a way failed, in a few words."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or any(sign in text for sign in ("out of memory", "RESOURCE_EXHAUSTED", "OOM")):
        return "out of memory"
    return text.splitlines()[0][:100]


def ratio(one, other):
    """one / other, or nothing where one of them was not measured."""
    return one / other if isinstance(one, float) and isinstance(other, float) else ""


def measure(name, size, dim, *, repeats, with_peer):
    """One row of the table."""
    labels, x = batch(size, dim, examples_per_class=2 if name == "n-pairs" else 4)
    functions = ways(name, labels, x, with_peer=with_peer)
    times = {"peer": "", **milliseconds(functions, repeats=repeats)}
    if isinstance(times["ours"], float) and isinstance(times["peer"], float):
        check(name, float(functions["ours"]()[0]), float(functions["peer"]()[0]))
    row = {"loss": name, "batch": size, "dim": dim}
    row |= {f"{way}_ms": times[way] for way in ("ours", "three_products", "peer")}
    row |= {"ours_over_three_products": ratio(times["ours"], times["three_products"])}
    row |= {"peer_over_ours": ratio(times["peer"], times["ours"])}
    return row | {"device": jax.devices()[0].device_kind}


def main():
    """Measure every loss at every size and write the table."""
    options = arguments_of(__doc__, "gpu_losses.csv", sizes=[*SIZES, (16384, 512)], peers=PEERS)
    packages = ["jax", *(PEERS.values() if options.peers else [])]
    about = {"measured": today(), "versions": versions(*packages), "hardware": hardware()}
    names = options.losses or (["triplet, all"] if options.quick else [n for n in ours() if n not in OF_ADDONS])
    rows = []
    for name in names:
        for size, dim in options.sizes:
            with_peer = options.peers and name not in OF_ADDONS
            row = measure(name, size, dim, repeats=3 if options.quick else 50, with_peer=with_peer)
            rows.append(row | about)
            print_table(rows[-1:], list(row))
    write_csv(options.output, rows)
    print_table(rows, list(rows[0])[:-3])
    failed = [f"{row['loss']} at {row['batch']}: {row['ours_ms']}" for row in rows if isinstance(row["ours_ms"], str)]
    if failed:
        raise SystemExit(f"Ours failed: {'; '.join(failed)}.")


if __name__ == "__main__":
    main()
