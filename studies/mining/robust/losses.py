"""Table 1 of "A simple and effective framework": do robust losses beat the multi-similarity loss?

Balanced TopK and KL, the best of the paper, over the margin loss on similarities, in batches of 80 images. With the best
learning rate, the paper's values are tried for K, the number of pairs of TopK, and for the temperature of KL. The study
`robust_others` has the other rows of the table.
"""

from dataclasses import replace

from studies import pages, runner

TAKEN = (160, 200, 240, 280)  # K of section 4.1, in pairs
GAMMAS = (0.1, 0.3, 0.5, 0.7, 0.9)
METHODS = {
    "TopK-PN, margin": {"loss": "margin on similarities", "mining": "top k balanced"},
    "KL, margin": {"loss": "margin on similarities", "mining": "KL"},
}


def rows(options, methods=METHODS):
    """One row per run."""
    settings = {name: methods[name] for name in runner.some(methods, options)}
    tuned = runner.tuned([replace(options.base, **one) for one in settings.values()], options)
    chosen = [runner.best(trials(run), options) for run in tuned]
    found = runner.repeated(chosen, options)
    return [{"method": name, **row} for name, one in settings.items() for row in runner.where(found, **one)]


def trials(run):
    """The run with each value that the paper tries for its K or its temperature."""
    if run.mining in ("top k", "top k balanced"):
        return [replace(run, k=2 * pairs) for pairs in TAKEN]  # both orders of each pair
    return [replace(run, gamma=gamma) for gamma in GAMMAS] if run.mining == "KL" else [run]


def tables(rows):
    """Recall of each method, beside the multi-similarity loss and grouped KL of the study `temperatures`."""
    beside = runner.read_rows(pages.RESULTS / "mining" / "temperatures.csv")
    methods = ("multi-similarity", "grouped KL, gamma = 0.1", *METHODS)
    return {"robust losses": runner.recalls(beside + rows, by=("method", methods))}
