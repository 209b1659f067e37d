"""Table 1 of "Sampling matters": does the sampling of negatives matter as much as the loss?

Contrastive, margin, and triplet losses on squared and plain distances, each with random, semi-hard and
distance-weighted negatives: one negative per positive. The margin loss learns a boundary for each class, as
in the paper.
"""

from dataclasses import replace

from studies import runner

LOSSES = ("contrastive", "triplet squared", "triplet", "margin")
SAMPLINGS = ("random", "semi-hard", "distance weighted")


def rows(options):
    """One row per run."""
    runs = [
        replace(options.base, loss=loss, mining=mining, boundary=boundary_of(loss, options))
        for loss in runner.some(LOSSES, options)
        for mining in runner.some(SAMPLINGS, options)
    ]
    return runner.results(runs, options)


def boundary_of(loss, options):
    """A boundary of each class for the margin loss; other losses have none, and keep the setting."""
    return "learned" if loss == "margin" else options.base.boundary


def tables(rows):
    """Recall@1 of each loss with each sampling."""
    return {"samplings": runner.table(rows, down=("loss", LOSSES), across=("mining", SAMPLINGS))}
