"""Table 2 of "A simple and effective framework": grouped KL as a lifted structure loss with a temperature.

Grouped KL over the margin loss on similarities, for four temperatures gamma, beside the multi-similarity loss over all
pairs and the lifted structure loss, whose gradient grouped KL has for gamma = 1 where no pair's cost is 0.

    python -m recipes.mining.temperatures            # five minutes on two cores; a restart goes on
    python -m recipes.mining.temperatures --quick    # a taste of it
"""

from dataclasses import replace

from recipes import studies
from recipes.mining import study

GAMMAS = (1.0, 0.1, 0.01, 0.001)
METHODS = ("multi-similarity", "lifted structure", *(f"grouped KL, gamma = {gamma:g}" for gamma in GAMMAS))


def rows(options):
    """A row for every run."""
    grouped = replace(options.base, loss="margin on similarities", mining="grouped KL")
    runs = [
        replace(options.base, loss="RAW", mining="all"),
        replace(options.base, loss="lifted structure", mining="all"),
        *(replace(grouped, gamma=gamma) for gamma in GAMMAS),
    ]
    methods = [method for method in studies.some(METHODS, options) for _ in options.seeds]
    runs = studies.over_seeds(studies.tuned(studies.some(runs, options), options), options)
    found = studies.rows_of(studies.finished(runs, options))
    return [{"method": method, **row} for method, row in zip(methods, found, strict=True)]


def markdown(rows):
    """Recall of each method."""
    return studies.recalls(rows, by=("method", METHODS), keys=("recall@1", "recall@10", "recall@100", "map@r"))


if __name__ == "__main__":
    found = study.options(__doc__.splitlines()[0])
    studies.write_rows(found.output / "temperatures.csv", rows(found))
