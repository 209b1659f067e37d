"""Table 3 of "Sampling matters": are boundaries that the margin loss learns better than a fixed one?

Margin loss with distance-weighted sampling; fixed boundaries, one per class that starts at 1.2, and
one per class and example.
"""

from dataclasses import replace

from studies import runner
from studies.mining.setting import OF_EXAMPLES

BOUNDARIES = (0.8, 1.0, 1.2, 1.4, "learned", OF_EXAMPLES)


def rows(options):
    """One row per run."""
    boundaries = BOUNDARIES[-1:] if options.quick else BOUNDARIES
    return runner.results([replace(options.base, boundary=boundary) for boundary in boundaries], options)


def tables(rows):
    """The range of the boundaries of classes after training, over seeds."""
    learned = runner.where(rows, boundary="learned")
    low, high = min(row["lowest boundary"] for row in learned), max(row["highest boundary"] for row in learned)
    return {"range": f"Learned boundaries of classes are between {low:.2f} and {high:.2f}; in the paper 0.94 and 1.45."}
