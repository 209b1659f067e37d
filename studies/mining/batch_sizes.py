"""Table 2 of "Sampling matters": does the order of samplings depend on the size of the batch?

Triplet and margin loss in batches of 40, 80 and 120 images, for 1,000 steps each.

    python -m recipes.mining.batch_sizes            # a quarter of an hour on two cores; a restart goes on
    python -m recipes.mining.batch_sizes --quick    # a taste of it
"""

from dataclasses import replace

from recipes import studies
from recipes.mining import study
from recipes.mining.samplings import SAMPLINGS

SIZES = (40, 80, 120)
LOSSES = ("triplet", "margin")


def rows(options):
    """A row for every run."""
    runs = [
        replace(options.base, loss=loss, mining=mining, batch=batch)
        for loss in (LOSSES[-1:] if options.quick else LOSSES)
        for mining in studies.some(SAMPLINGS, options)
        for batch in (SIZES[:1] if options.quick else SIZES)
    ]
    return studies.rows_of(studies.finished(studies.over_seeds(studies.tuned(runs, options), options), options))


def markdown(rows):
    """Recall@1 of each loss and size with each sampling."""
    parts = [
        studies.table(
            studies.where(rows, loss=loss), down=("batch", SIZES), across=("mining", SAMPLINGS), label=f"{loss}, batch"
        )
        for loss in LOSSES
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    found = study.options(__doc__.splitlines()[0])
    studies.write_rows(found.output / "batch_sizes.csv", rows(found))
