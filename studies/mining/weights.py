"""Table 1 of "A unified view": do mining and weighting of pairs help by themselves and together?

Binomial deviance and the weights by absolute and relative similarity (RAW), over all pairs and over those that a miner
keeps; and equal weights on the pairs of valid triplets.
"""

from dataclasses import replace

from studies import runner

METHODS = {
    "binomial deviance": ("binomial", "all"),
    "multi-similarity": ("multi-similarity", "all"),
    "valid triplets": ("equal weights", "valid triplets"),
    "binomial deviance, valid triplets": ("binomial", "valid triplets"),
    "RAW, distance weighted": ("multi-similarity", "distance weighted"),
    "RAW, semi-hard": ("multi-similarity", "semi-hard"),
    "RAW": ("multi-similarity", "valid triplets"),
    "lifted structure": ("lifted structure", "all"),
    "lifted structure, valid triplets": ("lifted structure", "valid triplets"),
}


def rows(options):
    """One row per run."""
    methods = runner.some(METHODS.values(), options)
    found = runner.results([replace(options.base, loss=loss, mining=mining) for loss, mining in methods], options)
    names = {settings: name for name, settings in METHODS.items()}
    return [{"method": names[row["loss"], row["mining"]], **row} for row in found]


def tables(rows):
    """Recall of each method."""
    return {"weights": runner.recalls(rows, by=("method", METHODS))}
