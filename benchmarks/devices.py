"""Overhead of several devices on JAX: the same training step on one to eight virtual devices, and in two processes.

python benchmarks/devices.py            # half an hour on two busy cores
python benchmarks/devices.py --quick    # a few steps of few proxies on one and two devices

All devices share the cores of one machine: the time of a step over that of one device is what the division adds, less
what several devices gain by keeping all cores busy. A batch is divided by `DataParallel`, proxies by `ModelParallel`.
"""

import contextlib
import functools
import os
import socket
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
from _report import median_seconds, of_process, options_of, write_table

import tfdml

COUNTS, PROCESSES, DIM = (1, 2, 4, 8), 2, 128


def divided(what, count):
    """The distribution of a batch or of proxies over this number of devices."""
    devices = keras.distribution.list_devices()[:count]
    if what == "batch":
        return keras.distribution.DataParallel(devices=devices)
    layout = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((1, count), ("batch", "model"), devices))
    layout["proxies.*/vectors"] = ("model", None)
    return keras.distribution.ModelParallel(layout_map=layout)


def candidate(what, *, quick):
    """(model, batches) of a convolutional network over pairs, or of a linear one under proxies of many classes."""
    if what == "batch":
        import fit

        return fit.ours(*fit.images_and_labels(400, 40), 32)
    classes, features = 2_000 if quick else 50_000, 64
    x = np.random.default_rng(0).standard_normal((4 * classes, features)).astype("float32")
    inputs = keras.Input((features,))
    model = tfdml.models.EmbeddingModel(inputs, keras.layers.Dense(DIM)(inputs))
    model.compile("sgd", loss=tfdml.losses.CosFaceLoss(classes=classes))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=4 if quick else 32, examples_per_class=4, seed=0)
    return model, sampler.batches(x, np.arange(len(x)) % classes)


def step_seconds(candidates, *, quick):
    """Median seconds of a step for each (model, batches, distribution), in turns."""
    steps, rounds = (2, 1) if quick else (8, 7)

    def epoch(model, batches, distribution):
        with scope(distribution):
            model.fit(batches, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=0)

    functions = {name: functools.partial(epoch, *each) for name, each in candidates.items()}
    # The first two build and compile: after an epoch, variables are where the step leaves them.
    seconds = median_seconds(functions, repeats=rounds, warmups=2)
    return {name: value / steps for name, value in seconds.items()}


def scope(distribution):
    """The scope of a distribution, or none."""
    return contextlib.nullcontext() if distribution is None else distribution.scope()


def on_devices(quick):
    """Rows of one process with several virtual devices."""
    rows = []
    for what in ("proxies",) if quick else ("batch", "proxies"):
        candidates = {}
        for count in (0, *(COUNTS[:2] if quick else COUNTS)):
            distribution = divided(what, count) if count else None  # 0: without a distribution
            with scope(distribution):
                candidates[count] = (*candidate(what, quick=quick), distribution)
        seconds = step_seconds(candidates, quick=quick)
        rows += [row(what, 1, count, seconds[count], seconds[0]) for count in candidates if count]
    return rows


def row(what, processes, devices, seconds, one):
    """A row of the table."""
    return {"divided": what, "processes": processes, "devices": devices, "ms": 1e3 * seconds, "over_one": seconds / one}


def in_processes(index, port):
    """The row of two processes with a device each; the first process measures one device afterwards."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    keras.distribution.initialize(f"127.0.0.1:{port}", num_processes=PROCESSES, process_id=index)
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    both = step_seconds({"both": (*candidate("batch", quick=False), keras.distribution.distribution())}, quick=False)
    keras.distribution.set_distribution(None)
    if index:
        return []
    one = step_seconds({"one": (*candidate("batch", quick=False), None)}, quick=False)
    return [row("batch", PROCESSES, PROCESSES, both["both"], one["one"])]


def environment_of(devices):
    """Variables of a process of JAX with this number of virtual devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}


def of_case(kind, *case):
    """What a process measures: several devices, or its part of two processes."""
    return on_devices(*case) if kind == "devices" else in_processes(*case)


def free_port():
    """A port of this machine that no program listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def main():
    """Measure in processes of their own, since the number of devices is set early, and write the table."""
    options = options_of(__doc__, "devices.csv", case=of_case)
    rows = of_process(__file__, "devices", options.quick, **environment_of(COUNTS[-1]))
    if not options.quick:
        port = free_port()
        with ThreadPoolExecutor(PROCESSES) as threads:
            both = lambda index: of_process(__file__, "processes", index, port, **environment_of(1))  # noqa: E731
            rows += [row for own in threads.map(both, range(PROCESSES)) for row in own]
    write_table(options.output, rows, "jax")


if __name__ == "__main__":
    main()
