"""Table 3 of "Sampling matters": are boundaries that the margin loss learns better than a fixed one?

Margin loss with distance-weighted sampling; fixed boundaries, and one per class that starts at 1.2.
"""

from dataclasses import replace

from studies import runner

BOUNDARIES = (0.8, 1.0, 1.2, 1.4, "learned")


def rows(options):
    """One row per run."""
    boundaries = BOUNDARIES[-2:] if options.quick else BOUNDARIES
    return runner.results([replace(options.base, boundary=boundary) for boundary in boundaries], options)


def tables(rows):
    """Recall of each boundary."""
    return {"boundaries": runner.recalls(rows, by=("boundary", BOUNDARIES))}
