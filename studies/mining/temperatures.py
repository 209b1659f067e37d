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


def rows(options):
    """One row per run."""
    methods = runner.some(METHODS, options)
    found = runner.results([replace(options.base, **METHODS[method]) for method in methods], options)
    return [{"method": _method(row), **row} for row in found]


def _method(row):
    return next(name for name, settings in METHODS.items() if settings.items() <= row.items())
