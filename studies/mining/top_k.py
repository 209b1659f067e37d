"""Figure 2 of "A simple and effective framework": how many pairs should TopK take?

TopK over the margin loss on similarities, in batches of 640 images. K counts pairs as the paper does; the loss takes
both orders of each.

    python -m recipes.mining.top_k            # ten minutes on two cores; a restart goes on
    python -m recipes.mining.top_k --quick    # a taste of it
"""

from dataclasses import replace

from recipes import figures, studies
from recipes.mining import study
from recipes.mining.imbalance import IMAGES

BATCH = 640
TAKEN = (160, 640, 960, 1280, 1600, 1920, 2560)


def rows(options):
    """A row for every run, with the number of pairs taken."""
    base = replace(options.base, loss="margin on similarities", mining="top k")
    batch, images, taken = (80, 2400, TAKEN[:1]) if options.quick else (BATCH, IMAGES, TAKEN)
    runs = [replace(base, batch=batch, steps=images // batch, k=2 * pairs) for pairs in taken]
    found = studies.rows_of(studies.finished(studies.over_seeds(studies.tuned(runs, options), options), options))
    return [{"taken": row["k"] / 2, **row} for row in found]


def draw(path, rows):
    """Recall@1 over the number of pairs taken."""

    def axes(axis):
        figures.curves(axis, {"top k": rows}, x="taken")
        axis.set(xlabel=f"K, pairs taken in a batch of {BATCH}", ylabel="Recall@1, %")

    figures.save(path, axes, columns=1)


if __name__ == "__main__":
    found = study.options(__doc__.splitlines()[0])
    of_runs = rows(found)
    studies.write_rows(found.output / "top_k.csv", of_runs)
    draw(found.output / "top_k.png", of_runs)
