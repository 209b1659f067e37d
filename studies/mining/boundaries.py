"""Table 3 of "Sampling matters": are boundaries that the margin loss learns better than a fixed one?

Margin loss with distance-weighted sampling; fixed boundaries, and one for each class that starts at 1.2.

    python -m recipes.mining.boundaries            # five minutes on two cores; a restart goes on
    python -m recipes.mining.boundaries --quick    # a taste of it
"""

from dataclasses import replace

from recipes import studies
from recipes.mining import study

BOUNDARIES = (0.8, 1.0, 1.2, 1.4, "learned")


def rows(options):
    """A row for every run."""
    boundaries = BOUNDARIES[-2:] if options.quick else BOUNDARIES
    runs = [replace(options.base, boundary=boundary) for boundary in boundaries]
    return studies.rows_of(studies.finished(studies.over_seeds(studies.tuned(runs, options), options), options))


def markdown(rows):
    """Recall of each boundary."""
    return studies.recalls(rows, by=("boundary", BOUNDARIES), keys=("recall@1", "recall@10", "recall@100", "map@r"))


if __name__ == "__main__":
    found = study.options(__doc__.splitlines()[0])
    studies.write_rows(found.output / "boundaries.csv", rows(found))
