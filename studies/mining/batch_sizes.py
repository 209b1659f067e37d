"""Table 2 of "Sampling matters": does the order of samplings depend on the size of the batch?

Triplet and margin loss in batches of 40, 80 and 120 images, for 1,000 steps each. The margin loss learns a boundary for
each class, as in the paper.
"""

from dataclasses import replace

from studies import runner
from studies.mining.samplings import SAMPLINGS, boundary_of

SIZES = (40, 80, 120)
LOSSES = ("triplet", "margin")


def rows(options):
    """One row per run."""
    runs = [
        replace(options.base, loss=loss, mining=mining, batch=batch, boundary=boundary_of(loss, options))
        for loss in (LOSSES[-1:] if options.quick else LOSSES)
        for mining in runner.some(SAMPLINGS, options)
        for batch in (SIZES[:1] if options.quick else SIZES)
    ]
    return runner.results(runs, options)
