"""Memory and time of a training step of EfficientNetLite0: frozen, with LoRA, and all of it.

python benchmarks/tuning.py            # five minutes on two cores
python benchmarks/tuning.py --quick    # one step of small images
"""

import argparse
import json
import math
import subprocess
import sys

from _report import RESULTS, measured_steps, print_table, write_csv

import tfdml


def measured(how, rank, batch_size, size, steps):
    """Weights that are trained, MiB of the optimizer and of the peak beyond the built model, median seconds."""
    import numpy as np

    import tfdml

    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (batch_size, size, size, 3), dtype="uint8")
    labels = np.arange(batch_size) // 4
    model = tfdml.models.from_backbone("EfficientNetLite0", input_shape=(size, size, 3), weights=None)
    backbone = model.get_layer("backbone")
    every = backbone.count_params()
    if how == "LoRA":
        tfdml.networks.add_lora(model, rank)
    if how == "linear head":
        tfdml.networks.freeze(model)
    trained = sum(math.prod(variable.shape) for variable in backbone.trainable_variables)
    model.compile("adam", loss=tfdml.losses.MultiSimilarityLoss())
    steps_measured = measured_steps(model, images, labels, steps)
    state = sum(math.prod(variable.shape) for variable in model.optimizer.variables)
    return {
        "trained": trained,
        "trained_percent": 100 * trained / every,
        "optimizer_mib": 4 * state / 2**20,
        **steps_measured,
    }


def row(how, rank, batch_size, size, steps):
    """One case, in its own process."""
    command = [sys.executable, __file__, "--case", json.dumps([how, rank, batch_size, size, steps])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    about = tfdml.environment("keras", "tensorflow")
    return {"tuned": how, "rank": rank or "-", "batch": batch_size, "pixels": size, **found, **about}


def main():
    """Measure all cases, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="one step of small images")
    parser.add_argument("--output", default=RESULTS / "tuning.csv", help="the file of the results")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measured(*arguments.case)))
        return
    sizes, cases, rounds = ((8, 32, 1), CASES[1:2], 1) if arguments.quick else ((32, 128, 10), CASES, 3)
    in_turns = [[row(*case, *sizes) for case in cases] for _ in range(rounds)]
    rows = [min(same, key=lambda each: each["step_s"]) for same in zip(*in_turns, strict=True)]
    print_table(rows, list(rows[0])[:9])
    write_csv(arguments.output, rows)


CASES = [("linear head", None), ("LoRA", 2), ("LoRA", 4), ("LoRA", 8), ("all", None)]

if __name__ == "__main__":
    main()
