"""Table 1 of "A simple and effective framework": TopK, and balanced TopK over binomial deviance."""

from studies import runner
from studies.mining.robust import losses

METHODS = {
    "TopK, margin": {"loss": "margin on similarities", "mining": "top k"},
    "TopK, binomial": {"loss": "binomial", "mining": "top k"},
    "TopK-PN, binomial": {"loss": "binomial", "mining": "top k balanced"},
}


def rows(options):
    """One row per run."""
    return losses.rows(options, METHODS)


def tables(rows):
    """Recall of each method."""
    return {"robust others": runner.recalls(rows, by=("method", METHODS))}
