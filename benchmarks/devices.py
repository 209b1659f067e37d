"""Overhead of several devices on JAX: the same training step on one to eight virtual devices, and in two processes.

python benchmarks/devices.py            # half an hour on two busy cores
python benchmarks/devices.py --quick    # a few steps of few proxies on one and two devices

All devices share the cores of one machine: the time of a step over that of one device is what the division adds, less
what several devices gain by keeping all cores busy. A batch is divided by `DataParallel`, proxies by `ModelParallel`.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import time

import keras
import numpy as np
from _report import RESULTS, print_table, write_csv

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

        return fit.ours(*fit.images_and_labels(400, 40), 32, 4)
    classes, features = 2_000 if quick else 50_000, 64
    x = np.random.default_rng(0).standard_normal((4 * classes, features)).astype("float32")
    inputs = keras.Input((features,))
    model = tfdml.models.EmbeddingModel(inputs, keras.layers.Dense(DIM)(inputs))
    model.compile("sgd", loss=tfdml.losses.CosFaceLoss(classes=classes))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=4 if quick else 32, examples_per_class=4, seed=0)
    return model, sampler.batches(x, np.arange(len(x)) % classes)


def step_seconds(candidates, *, quick):
    """Median seconds of a step for each (model, batches, distribution), in turns."""
    seconds = {name: [] for name in candidates}
    steps, rounds = (2, 1) if quick else (8, 7)
    for turn in range(rounds + 2):
        for name, (model, batches, distribution) in candidates.items():
            with scope(distribution):
                begin = time.perf_counter()
                model.fit(batches, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=0)
            if turn > 1:  # the first two build and compile: after an epoch, variables are where the step leaves them
                seconds[name].append((time.perf_counter() - begin) / steps)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def scope(distribution):
    """The scope of a distribution, or none."""
    return contextlib.nullcontext() if distribution is None else distribution.scope()


def on_devices(*, quick):
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


def started(*arguments, devices):
    """A process of JAX with this number of virtual devices."""
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    flags = environment.get("XLA_FLAGS", "")
    environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={devices}"
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def rows_of(processes):
    """The rows that the first of some processes prints."""
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("A process failed; its error is above.")
    return json.loads(outputs[0].splitlines()[-1])


def free_port():
    """A port of this machine that no program listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def main():
    """Measure in processes of their own, since the number of devices is set early, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--devices", action="store_true", help="measure on the devices of this process and print it")
    parser.add_argument("--process", type=int, help="be this process of two, and print the row of both")
    parser.add_argument("--port", help="of process 0")
    parser.add_argument("--output", default=RESULTS / "devices.csv")
    options = parser.parse_args()
    if options.devices:
        print(json.dumps(on_devices(quick=options.quick)))
    elif options.process is not None:
        print(json.dumps(in_processes(options.process, options.port)))
    else:
        rows = rows_of([started("--devices", *(["--quick"] if options.quick else []), devices=COUNTS[-1])])
        if not options.quick:
            port = free_port()
            rows += rows_of([started("--process", index, "--port", port, devices=1) for index in range(PROCESSES)])
        rows = [one | tfdml.environment("jax") for one in rows]
        write_csv(options.output, rows)
        print_table(rows, list(rows[0])[:-2])


if __name__ == "__main__":
    main()
