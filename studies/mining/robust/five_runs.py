"""Figure 4 of "A simple and effective framework": robust losses beside the multi-similarity loss, five seeds.

The multi-similarity loss has its miner (RAW), as in the paper, or all pairs.
"""

from dataclasses import replace

from studies import figures, runner
from studies.mining.robust import losses, others

SEEDS = (0, 1, 2, 3, 4)
METHODS = {
    "RAW": {"loss": "multi-similarity", "mining": "valid triplets"},  # the method of the paper's rows, loss and miner
    "multi-similarity": {"loss": "multi-similarity", "mining": "all"},
    **losses.METHODS,
    **others.METHODS,
}


def rows(options):
    """One row per run."""
    return losses.rows(replace(options, seeds=options.seeds if options.quick else SEEDS), METHODS)


def draw(path, rows):
    """Mean and standard deviation of Recall@1 and of MAP@R over the runs of each method."""

    def panels(*axes):
        for axis, key, label in zip(axes, ("recall@1", "map@r"), ("Recall@1, %", "MAP@R, %"), strict=True):
            methods = dict.fromkeys(row["method"] for row in rows)
            for place, (color, method) in enumerate(zip(figures.COLORS, methods, strict=False)):
                runs = runner.where(rows, method=method)
                mean, deviation = runner.mean_of(runs, key), runner.deviation_of(runs, key)
                axis.bar(place, mean, yerr=deviation, color=color, label=method, capsize=2)
            axis.set(xticks=[], ylabel=label)

    figures.save(path, panels, columns=2)
