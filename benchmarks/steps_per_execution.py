"""Time of a training step with 1 and with 8 steps per execution, on TensorFlow and on JAX, in turns.

python benchmarks/steps_per_execution.py            # five minutes on two cores
python benchmarks/steps_per_execution.py --quick    # a few steps of a small batch on TensorFlow
"""

import argparse
import json
import os
import subprocess
import sys

from _report import RESULTS, print_table, write_csv

import tfdml

COUNTS = (1, 8)


def milliseconds(batch, *, quick):
    """Milliseconds per step of the small glyph network for each number of steps per execution."""
    import fit

    images, labels = fit.images_and_labels(*((400, 40) if quick else (12_000, 870)))
    candidates = {count: fit.ours(images, labels, batch // 4, 4, steps_per_execution=count) for count in COUNTS}
    seconds = fit.step_seconds(candidates, steps=8 if quick else 16, rounds=1 if quick else 5)
    return {f"steps_{count}_ms": 1e3 * seconds[count] for count in COUNTS}


def row(backend, batch, *, quick):
    """The numbers of one backend, from a process of its own: a process has one backend."""
    command = [sys.executable, __file__, "--batch", str(batch), *(["--quick"] if quick else [])]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {"backend": backend, "batch": batch, **found, "saved": 1 - found["steps_8_ms"] / found["steps_1_ms"]}


def main():
    """Measure both backends and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--batch", type=int, help="measure this batch in this process and print it")
    parser.add_argument("--output", default=RESULTS / "steps_per_execution.csv")
    options = parser.parse_args()
    if options.batch:
        print(json.dumps(milliseconds(options.batch, quick=options.quick)))
        return
    sizes, backends = ([8], ["tensorflow"]) if options.quick else ([8, 64], ["tensorflow", "jax"])
    found = [row(backend, batch, quick=options.quick) for backend in backends for batch in sizes]
    about = tfdml.environment("jax")
    write_csv(options.output, [one | about for one in found])
    print_table(found, list(found[0]))


if __name__ == "__main__":
    main()
