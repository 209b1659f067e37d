"""Table 3 of "Sampling matters": are boundaries that the margin loss learns better than a fixed one?

Margin loss with distance-weighted sampling; fixed boundaries, one per class that starts at 1.2, and
one per class and example.
"""

from dataclasses import asdict, dataclass, replace

from studies import runner
from studies.mining import setting
from studies.mining.setting import OF_EXAMPLES

BOUNDARIES = (0.8, 1.0, 1.2, 1.4, "learned", OF_EXAMPLES)


def rows(options):
    """One row per run."""
    boundaries = BOUNDARIES[-1:] if options.quick else BOUNDARIES
    return runner.results([replace(options.base, boundary=boundary) for boundary in boundaries], options)


@dataclass(frozen=True)
class LearnedRun(setting.Run):
    """A run of which the boundaries are kept."""

    kept: str = "range"


class Ranges:
    """Runs with a boundary per class, again, and the range of what they have learned."""

    Run = LearnedRun

    def rows(self, options):
        """One row per run, with its lowest and its highest boundary."""
        return runner.results([LearnedRun(**{**asdict(options.base), "boundary": "learned"})], options)

    def tables(self, rows):
        """The range over classes and seeds."""
        low, high = min(row["lowest boundary"] for row in rows), max(row["highest boundary"] for row in rows)
        return {"range": f"Learned boundaries are between {low:.2f} and {high:.2f}; in the paper, 0.94 and 1.45."}
