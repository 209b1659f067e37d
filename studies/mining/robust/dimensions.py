"""Figure 5 of "A simple and effective framework": Figure 1 with embeddings of half the dimension."""

from dataclasses import asdict, dataclass, replace

from studies.mining import imbalance, setting


@dataclass(frozen=True)
class Run(setting.Run):
    """A run with the dimension of its embeddings."""

    dim: int = 32


def rows(options):
    """One row per run, with the ratio of positives to negatives in its batches."""
    return imbalance.rows(replace(options, base=Run(**asdict(options.base))))
