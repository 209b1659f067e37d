"""Table 1 from a trained network, p-random batches with as many pairs as a group batch: 2,016 pairs of 4,032 images.

As `trained_start`, whose features make batches of this size cheap; `all_pairs` is the same from random weights.
"""

from dataclasses import replace

from studies.importance_sampling import trained_start
from studies.importance_sampling.all_pairs import PAIRS
from studies.importance_sampling.batch_designs import PAIRS as DESIGNS


def rows(options):
    """One row per run: each share of positives, without and with weights, with the lambda of the paper."""
    run = trained_start.Run
    base, pairs = (run(steps=20, classes=40), 8) if options.quick else (run(), PAIRS)
    train, train_seeds, rates = trained_start.train, trained_start.train_seeds, trained_start.RATES
    options = replace(options, base=base, train=train, train_seeds=train_seeds, rates=rates)
    return trained_start.rows_of_designs(options, [f"{design}-{pairs}" for design in DESIGNS], lambdas=(256.0,))


def tables(rows):
    """Recall@1 of each share of positives, and its spread."""
    return {"trained pairs": trained_start.table(rows)}
