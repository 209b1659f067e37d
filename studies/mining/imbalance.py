"""Figure 1 of "A simple and effective framework": do robust losses bear many negatives for each positive?

The margin loss on similarities over the pairs that semi-hard and distance-weighted mining choose, and under three
uncertainty sets, in batches of 80 to 640 images. All see as many images, so larger batches make fewer steps. TopK takes
twice as many pairs as the batch has images; an ordered pair is half a pair.

    python -m recipes.mining.imbalance            # 25 minutes on two cores; a restart goes on
    python -m recipes.mining.imbalance --quick    # a taste of it
"""

from dataclasses import replace

from recipes import figures, studies
from recipes.mining import study

SIZES = (80, 160, 320, 480, 640)
IMAGES = 120_000
METHODS = ("semi-hard on similarities", "distance weighted", "top k", "top k balanced", "KL")


def rows(options):
    """A row for every run, with the ratio of positives to negatives in its batches."""
    base = replace(options.base, loss="margin on similarities")
    sizes, images = (SIZES[:1], 2400) if options.quick else (SIZES, IMAGES)
    runs = [
        replace(base, mining=mining, batch=batch, k=4 * batch, steps=images // batch)
        for mining in studies.some(METHODS, options)
        for batch in sizes
    ]
    found = studies.rows_of(studies.finished(studies.over_seeds(studies.tuned(runs, options), options), options))
    positives = study.IN_BATCH - 1
    return [{"ratio": positives / (row["batch"] - study.IN_BATCH), **row} for row in found]


def draw(path, rows):
    """Recall@1 over the ratio of positives to negatives."""

    def axes(axis):
        figures.curves(axis, {method: studies.where(rows, mining=method) for method in METHODS}, x="ratio")
        axis.set(xscale="log", xlabel="positives to negatives in a batch (images)", ylabel="Recall@1, %")
        ticks = {row["ratio"]: f"{row['ratio']:.3f}\n({row['batch']:g})" for row in rows}
        axis.set_xticks(list(ticks), list(ticks.values()))
        axis.minorticks_off()

    figures.save(path, axes, columns=1)


if __name__ == "__main__":
    found = study.options(__doc__.splitlines()[0])
    of_runs = rows(found)
    studies.write_rows(found.output / "imbalance.csv", of_runs)
    draw(found.output / "imbalance.png", of_runs)
