"""Table 1 of "A unified view": do mining and weighting of pairs help by themselves and together?

Binomial deviance and the weights by absolute and relative similarity (RAW), over all pairs and over those that a miner
keeps; and equal weights on the pairs of valid triplets.

    python -m recipes.mining.weights            # five minutes on two cores; a restart goes on
    python -m recipes.mining.weights --quick    # a taste of it
"""

from dataclasses import replace

from recipes import studies
from recipes.mining import study

METHODS = {
    "binomial deviance": ("binomial", "all"),
    "RAW": ("RAW", "all"),
    "valid triplets": ("equal weights", "valid triplets"),
    "binomial deviance, valid triplets": ("binomial", "valid triplets"),
    "RAW, distance weighted": ("RAW", "distance weighted"),
    "RAW, semi-hard": ("RAW", "semi-hard"),
    "RAW, valid triplets": ("RAW", "valid triplets"),
}


def rows(options):
    """A row for every run."""
    methods = studies.some(METHODS.values(), options)
    runs = [replace(options.base, loss=loss, mining=mining) for loss, mining in methods]
    found = studies.rows_of(studies.finished(studies.over_seeds(studies.tuned(runs, options), options), options))
    names = {settings: name for name, settings in METHODS.items()}
    return [{"method": names[row["loss"], row["mining"]], **row} for row in found]


def markdown(rows):
    """Recall of each method."""
    return studies.recalls(rows, by=("method", METHODS), keys=("recall@1", "recall@10", "recall@100", "map@r"))


if __name__ == "__main__":
    found = study.options(__doc__.splitlines()[0])
    studies.write_rows(found.output / "weights.csv", rows(found))
