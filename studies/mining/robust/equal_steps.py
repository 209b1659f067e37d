"""Figure 1 of "A simple and effective framework" with equal steps: what does the imbalance of pairs do by itself?

The study `imbalance` gives all batch sizes the same number of images, so that 640 images have 187 steps. Here 80 images
have 187 steps as well; the rows of 640 images are those of `imbalance`.
"""

from dataclasses import replace

from studies import pages, runner
from studies.mining.imbalance import IMAGES, METHODS

SMALL, LARGE = 80, 640


def rows(options):
    """One row per run."""
    base = replace(options.base, loss="margin on similarities", batch=SMALL, k=4 * SMALL)
    base = replace(base, steps=options.base.steps if options.quick else IMAGES // LARGE)
    return runner.results([replace(base, mining=mining) for mining in runner.some(METHODS, options)], options)


def tables(rows):
    """Recall@1 of each method: 80 images and 187 steps, 640 images and 187 steps, 80 images and 1,500 steps."""
    beside = runner.read_rows(pages.RESULTS / "mining" / "imbalance.csv")
    few, large, small = rows, runner.where(beside, batch=LARGE), runner.where(beside, batch=SMALL)
    body = [
        [name, *(runner.share(runner.where(runs, mining=name)) for runs in (few, large, small))] for name in METHODS
    ]
    heads = ("80 images, 187 steps", "640 images, 187 steps", "80 images, 1,500 steps")
    return {"equal steps": runner.markdown(["method", *heads], body)}
