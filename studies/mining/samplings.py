"""Table 1 of "Sampling matters": does the sampling of negatives matter as much as the loss?

Contrastive, margin, and triplet losses on squared and plain distances, each with random, semi-hard and
distance-weighted negatives: one negative for each positive.

    python -m recipes.mining.samplings            # ten minutes on two cores; a restart goes on
    python -m recipes.mining.samplings --quick    # a taste of it
"""

from dataclasses import replace

from recipes import studies
from recipes.mining import study

LOSSES = ("contrastive", "triplet squared", "triplet", "margin")
SAMPLINGS = ("random", "semi-hard", "distance weighted")


def rows(options):
    """A row for every run."""
    runs = [
        replace(options.base, loss=loss, mining=mining)
        for loss in studies.some(LOSSES, options)
        for mining in studies.some(SAMPLINGS, options)
    ]
    return studies.rows_of(studies.finished(studies.over_seeds(studies.tuned(runs, options), options), options))


def markdown(rows):
    """Recall@1 of each loss with each sampling."""
    return studies.table(rows, down=("loss", LOSSES), across=("mining", SAMPLINGS))


if __name__ == "__main__":
    found = study.options(__doc__.splitlines()[0])
    studies.write_rows(found.output / "samplings.csv", rows(found))
