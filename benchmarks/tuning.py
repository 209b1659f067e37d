"""Memory and time of a training step of EfficientNetLite0: frozen, with LoRA, and all of it.

python benchmarks/tuning.py            # five minutes on two cores
python benchmarks/tuning.py --quick    # one step of small images
"""

import math

import numpy as np
from _report import measured_steps, options_of, rows_of_cases, write_table

import tfdml


def measured(how, rank, batch_size, size, steps):
    """Weights that are trained, MiB of the optimizer and of the peak beyond the built model, median seconds."""
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


def main():
    """Measure all cases in turns, and keep the fastest of each."""
    options = options_of(__doc__, "tuning.csv", case=measured)
    sizes, cases, rounds = ((8, 32, 1), CASES[1:2], 1) if options.quick else ((32, 128, 10), CASES, 3)
    names, sized = ("tuned", "rank", "batch", "pixels"), [(*case, *sizes) for case in cases]
    in_turns = [list(rows_of_cases(__file__, names, sized)) for _ in range(rounds)]
    rows = [min(same, key=lambda each: each["step_s"]) for same in zip(*in_turns, strict=True)]
    write_table(options.output, rows)


CASES = [("linear head", None), ("LoRA", 2), ("LoRA", 4), ("LoRA", 8), ("all", None)]

if __name__ == "__main__":
    main()
