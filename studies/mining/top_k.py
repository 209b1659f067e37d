"""Figure 2 of "A simple and effective framework": how many pairs should TopK take?

TopK over the margin loss on similarities, in batches of 640 images. K counts pairs as the paper does; the loss takes
both orders of each.
"""

from dataclasses import replace

from studies import figures, runner
from studies.mining.imbalance import IMAGES

BATCH = 640
TAKEN = (160, 640, 960, 1280, 1600, 1920, 2560)


def rows(options, taken=TAKEN, images=IMAGES):
    """One row per run, with the number of pairs taken."""
    base = replace(options.base, loss="margin on similarities", mining="top k")
    batch, images, taken = (80, 2400, taken[:1]) if options.quick else (BATCH, images, taken)
    runs = [replace(base, batch=batch, steps=images // batch, k=2 * pairs) for pairs in taken]
    return [{"taken": row["k"] / 2, **row} for row in runner.results(runs, options)]


def draw(path, rows):
    """Recall@1 over the number of pairs taken."""

    def panel(axis):
        figures.curves(axis, {"top k": rows}, x="taken")
        axis.set(xlabel=f"K, pairs taken in a batch of {BATCH}", ylabel="Recall@1, %")

    figures.save(path, panel, columns=1)
