"""Tables 2 and 4 of "A simple and effective framework": when does grouped KL recover the lifted structure loss?

Grouped KL at gamma = 1 over the margin loss on similarities, where pairs with zero loss keep their weight, and where
the margin is so large that no pair has zero loss. The study `temperatures` has the lifted structure loss, and grouped
KL without the pairs of zero loss.
"""

from dataclasses import replace

from studies import runner

METHODS = {
    "all pairs, zero losses kept": {"loss": "margin on similarities", "mining": "grouped KL of all pairs"},
    "a margin of 4, no loss is zero": {"loss": "open margin on similarities", "mining": "grouped KL"},
}


def rows(options):
    """One row per run."""
    methods = runner.some(METHODS, options)
    found = runner.results([replace(options.base, gamma=1.0, **METHODS[method]) for method in methods], options)
    return [{"method": method, **row} for method in METHODS for row in runner.where(found, **METHODS[method])]
