"""Table 2 of "A simple and effective framework": grouped KL as a lifted structure loss with a temperature.

Grouped KL over the margin loss on similarities, for four temperatures gamma, beside the multi-similarity loss over all
pairs and the lifted structure loss, whose gradient grouped KL has for gamma = 1 where every pair has a loss above 0.
"""

from dataclasses import replace

from studies import runner

GROUPED = {"loss": "margin on similarities", "mining": "grouped KL"}
METHODS = {
    "multi-similarity": {"loss": "multi-similarity", "mining": "all"},
    "lifted structure": {"loss": "lifted structure", "mining": "all"},
    **{f"grouped KL, gamma = {gamma:g}": {**GROUPED, "gamma": gamma} for gamma in (1.0, 0.1, 0.01, 0.001)},
}


# Tables 2 and 4: pairs with zero loss keep their weight, and no pair has zero loss.
KEPT = {
    "all pairs, zero losses kept": {
        "loss": "margin on similarities",
        "mining": "grouped KL of all pairs",
        "gamma": 1.0,
    },
    "a margin of 4, no loss is zero": {"loss": "open margin on similarities", "mining": "grouped KL", "gamma": 1.0},
}


class Named:
    """A study of methods by name."""

    def __init__(self, methods):
        self.methods = methods

    def rows(self, options):
        """One row per run."""
        names = runner.some(self.methods, options)
        runs = runner.tuned([replace(options.base, **self.methods[name]) for name in names], options)
        found = zip(names, runs, strict=True)
        return [{"method": name, **row} for name, run in found for row in runner.repeated([run], options)]


TEMPERATURES, ZERO_LOSSES = Named(METHODS), Named(KEPT)
