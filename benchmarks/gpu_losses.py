"""Value and gradient of a loss on an accelerator: ours on JAX with XLA, the same loss in pytorch-metric-learning.

Both run on the same card; every call is waited for, and the first ones do not count.

    KERAS_BACKEND=jax python benchmarks/gpu_losses.py            # on a machine with a GPU
    KERAS_BACKEND=jax python benchmarks/gpu_losses.py --quick    # one small size, on what there is
"""

import argparse
import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
from _peers import OURS, batch, check, peers
from _report import RESULTS, hardware, median_seconds, print_table, require_peers, versions, write_csv


def three_products(x):
    """The similarities of a batch, and two products of their size with it, in full float32."""
    with jax.default_matmul_precision("float32"):
        s = x @ x.T
        return s @ x, s.T @ x


def torch_value_and_gradient(loss, labels, x):
    """One forward and backward pass in PyTorch, waited for."""
    import torch

    x = x.detach().requires_grad_(True)
    value = loss(labels, x)
    value.backward()
    if x.is_cuda:
        torch.cuda.synchronize()
    return value, x.grad


def measure(name, size, dim, repeats):
    """One row of the table."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    labels, x = batch(size, dim)
    jax_labels, jax_x = jax.device_put(labels), jax.device_put(x)
    torch_labels = torch.tensor(labels, dtype=torch.int64, device=device)
    torch_x = torch.tensor(x, device=device)
    loss = OURS[name]
    ours = jax.jit(jax.value_and_grad(lambda v: loss(jax_labels, v)))
    products = jax.jit(three_products)
    peer = peers(device)[name]
    theirs = torch_value_and_gradient(peer, torch_labels, torch_x)[0]
    check(name, float(ours(jax_x)[0]), float(theirs))
    seconds = median_seconds(
        {
            "ours": lambda: jax.block_until_ready(ours(jax_x)),
            "peer": lambda: torch_value_and_gradient(peer, torch_labels, torch_x),
            "three_products": lambda: jax.block_until_ready(products(jax_x)),
        },
        repeats=repeats,
    )
    return {
        "loss": name,
        "batch": size,
        "dim": dim,
        **{f"{column}_ms": 1e3 * value for column, value in seconds.items()},
        "peer_over_ours": seconds["peer"] / seconds["ours"],
        "ours_over_three_products": seconds["ours"] / seconds["three_products"],
        "device": f"{jax.devices()[0].device_kind}, torch on {device}",
    }


def main():
    """Measure every loss at every size and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default=RESULTS / "gpu_losses.csv")
    arguments = parser.parse_args()
    require_peers("torch", "pytorch_metric_learning")
    sizes = [64] if arguments.quick else [64, 256, 1024, 4096]
    dims = [16] if arguments.quick else [128, 512]
    about = {"versions": versions("jax", "keras", "torch", "pytorch-metric-learning"), "hardware": hardware()}
    rows = [
        measure(name, size, dim, repeats=3 if arguments.quick else 50) | about
        for name in OURS
        for size in sizes
        for dim in dims
    ]
    write_csv(arguments.output, rows)
    print_table(rows, list(rows[0])[:-2])


if __name__ == "__main__":
    main()
