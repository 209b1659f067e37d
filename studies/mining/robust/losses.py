"""Table 1 of "A simple and effective framework": do robust losses beat the multi-similarity loss?

Balanced TopK and KL, the best of the paper, over the margin loss on similarities, in batches of 80 images. TopK takes
twice the batch size in pairs and KL has a temperature of 0.1: neither is tuned. The study `robust_others` has the other
rows of the table.
"""

from dataclasses import replace

from studies import pages, runner

METHODS = {
    "TopK-PN, margin": {"loss": "margin on similarities", "mining": "top k balanced"},
    "KL, margin": {"loss": "margin on similarities", "mining": "KL"},
}


def rows(options, methods=METHODS):
    """One row per run."""
    settings = {name: methods[name] for name in runner.some(methods, options)}
    found = runner.results([replace(options.base, **one) for one in settings.values()], options)
    return [{"method": name, **row} for name, one in settings.items() for row in runner.where(found, **one)]


def tables(rows):
    """Recall of each method, beside the multi-similarity loss and grouped KL of the study `temperatures`."""
    beside = runner.read_rows(pages.RESULTS / "mining" / "temperatures.csv")
    methods = ("multi-similarity", "grouped KL, gamma = 0.1", *METHODS)
    return {"robust losses": runner.recalls(beside + rows, by=("method", methods))}
