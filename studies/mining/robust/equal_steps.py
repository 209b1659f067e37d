"""Figure 1 of "A simple and effective framework" with equal steps: what does the imbalance of pairs do by itself?

The study `imbalance` gives all batch sizes the same number of images, so that 640 images have 187 steps. Here 80 images
have 187 steps as well; the rows of 640 images are those of `imbalance`.
"""

from dataclasses import replace

from studies import runner
from studies.mining.imbalance import IMAGES, METHODS

SMALL, LARGE = 80, 640


def rows(options):
    """One row per run."""
    base = replace(options.base, loss="margin on similarities", batch=SMALL, k=4 * SMALL)
    base = replace(base, steps=options.base.steps if options.quick else IMAGES // LARGE)
    return runner.results([replace(base, mining=mining) for mining in runner.some(METHODS, options)], options)
