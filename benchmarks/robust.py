"""Time per step by batch size, robust losses against mining of pairs: Figure 3 of "A simple and effective framework".

Value and gradient of the loss alone, without a network, for embeddings of 1,024 dimensions, 5 examples per class.
TopK takes twice the batch size in pairs (an ordered pair is half a pair), as in the paper.

Up to 640 images, as in the paper, each is measured in five rounds, so that a difference has an interval.

    python benchmarks/robust.py            # ten minutes on two cores
    python benchmarks/robust.py --quick    # two methods, one small size, two rounds
"""

from pathlib import Path

import numpy as np
from _peers import batch, value_and_gradient
from _report import median_seconds, options_of, write_table
from miners import SIMILARITIES

from tfdml import losses, miners

SIZES = (80, 160, 320, 480, 640, 1280, 2560, 4095)
DIM = 1024


def methods(size):
    """name -> loss."""
    margin = losses.MarginLoss(**SIMILARITIES)

    def robust(uncertainty):
        return losses.RobustLoss(margin, uncertainty=uncertainty)

    return {
        "all pairs": margin,
        "top k": robust(losses.uncertainty.TopK(4 * size)),
        "top k balanced": robust(losses.uncertainty.TopKBalanced(4 * size)),
        "KL": robust(losses.uncertainty.KL(0.1)),
        "semi-hard": losses.MarginLoss(**SIMILARITIES, miner=miners.SemiHard(min_distance=0.5, distance="cosine")),
        "distance weighted": losses.MarginLoss(**SIMILARITIES, miner=miners.DistanceWeighted(seed=0)),
        "multi-similarity, mined": losses.RAWLoss(),
        "lifted structure": losses.GeneralizedLiftedLoss(margin=0.0, distance="cosine"),
    }


def draw(path, rows):
    """Milliseconds over the batch size, one line per method, without and with XLA."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.8), sharey=True, layout="constrained")
    for panel, (way, title) in zip(panels, (("graph_ms", "graph"), ("xla_ms", "XLA")), strict=True):
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if row["method"] == method]
            batches = list(dict.fromkeys(float(row["batch"]) for row in own))
            times = [np.mean([float(row[way]) for row in own if float(row["batch"]) == size]) for size in batches]
            panel.plot(batches, times, marker="o", markersize=3, label=method)
        panel.set(title=title, xlabel="images in a batch", xscale="log", yscale="log")
        panel.grid(color="0.92")
    panels[0].set_ylabel("milliseconds a step")
    panels[1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def rows_of(size, names, rounds):
    """A row for each method and round at one size."""
    labels, x = batch(size, DIM, examples_per_class=5)
    functions = {
        (name, way): value_and_gradient(methods(size)[name], labels, x, jit_compile=way == "xla")
        for name in names
        for way in ("graph", "xla")
    }
    for number in range(rounds):
        seconds = median_seconds(functions, repeats=2 if len(names) == 2 else max(3, min(21, 6000 // size)))
        for name in names:
            times = {f"{way}_ms": 1e3 * seconds[name, way] for way in ("graph", "xla")}
            yield {"method": name, "batch": size, "dim": DIM, "round": number, **times}


def main():
    """Measure, draw and write the table."""
    picture = {"type": Path, "help": "beside the table by default"}
    options = options_of(__doc__, "robust.csv", picture=picture)
    names = list(methods(5))[: 2 if options.quick else None]
    sizes, rounds = (SIZES[:1], 2) if options.quick else (SIZES, 5)
    rows = [row for size in sizes for row in rows_of(size, names, rounds if size <= 640 else 1)]
    write_table(options.output, rows)
    draw(options.picture or options.output.with_suffix(".png"), rows)


if __name__ == "__main__":
    main()
