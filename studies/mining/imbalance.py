"""Figure 1 of "A simple and effective framework": do robust losses bear many negatives for each positive?

The margin loss on similarities over the pairs that semi-hard and distance-weighted mining choose, and under three
uncertainty sets, in batches of 80 to 640 images. All see the same number of images, so larger batches make fewer steps.
TopK takes twice the batch size in pairs; an ordered pair is half a pair.
"""

from dataclasses import asdict, dataclass, replace

from studies import figures, runner
from studies.mining import setting
from studies.mining.setting import IN_BATCH

SIZES = (80, 160, 320, 480, 640)
IMAGES = 120_000
METHODS = ("semi-hard on similarities", "distance weighted", "top k", "top k balanced", "KL")


def rows(options, sizes=SIZES, images=IMAGES):
    """One row per run, with the ratio of positives to negatives in its batches."""
    base = replace(options.base, loss="margin on similarities")
    sizes, images = (sizes[:1], 2400) if options.quick else (sizes, images)
    runs = [
        replace(base, mining=mining, batch=batch, k=4 * batch, steps=images // batch)
        for mining in runner.some(METHODS, options)
        for batch in sizes
    ]
    return [{"ratio": (IN_BATCH - 1) / (row["batch"] - IN_BATCH), **row} for row in runner.results(runs, options)]


def draw(path, rows):
    """Recall@1 over the ratio of positives to negatives."""

    def panel(axis):
        figures.curves(axis, {method: runner.where(rows, mining=method) for method in METHODS}, x="ratio")
        axis.set(xscale="log", xlabel="positives to negatives in a batch (images)", ylabel="Recall@1, %")
        ticks = {row["ratio"]: f"{row['ratio']:.3f}\n({row['batch']:g})" for row in rows}
        axis.set_xticks(list(ticks), list(ticks.values()))
        axis.minorticks_off()

    figures.save(path, panel, columns=1)


@dataclass(frozen=True)
class HalfRun(setting.Run):
    """A run with the dimension of its embeddings."""

    dim: int = 32


class Dimensions:
    """Figure 5: the same with embeddings of half the dimension."""

    Run = HalfRun

    def rows(self, options):
        """One row per run."""
        return rows(replace(options, base=HalfRun(**asdict(options.base))))


class EqualSteps:
    """Figure 1 with the steps of 640 images for 80 images: what does the imbalance of pairs do by itself?"""

    def rows(self, options):
        """One row per run of 80 images; those of 640 are in `imbalance`."""
        steps = options.base.steps if options.quick else IMAGES // SIZES[-1]
        base = replace(options.base, loss="margin on similarities", batch=SIZES[0], k=4 * SIZES[0], steps=steps)
        return runner.results([replace(base, mining=mining) for mining in runner.some(METHODS, options)], options)
