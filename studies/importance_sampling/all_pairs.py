"""Table 1, p-random batches with as many pairs as a group batch: 2,016 pairs of 4,032 images.

The study `batch_designs` has 126 pairs of 252 images. A run here takes sixteen times the images.
"""

from dataclasses import replace

from studies import runner
from studies.importance_sampling import batch_designs

PAIRS = 2016


def rows(options):
    """One row per run: each design, without and with weights."""
    designs, pairs = (batch_designs.PAIRS[1:2], 8) if options.quick else (batch_designs.PAIRS, PAIRS)
    runs = [
        replace(options.base, design=f"{design}-{pairs}", delta=delta) for design in designs for delta in (0.0, 1.0)
    ]
    return [{"chosen": 1, **row} for row in runner.results(runs, options)]


def tables(rows):
    """One line per method."""
    return {"all pairs": batch_designs.table(rows, with_spread=False)}
