"""Pair probabilities of batch designs, and the importance weights that correct for them.

A batch design draws the ordered pair (i, j) with probability Q(i, j); the full loss takes all pairs with the same
probability P_U = 1 / (N (N - 1)). Weights W = P_U / Q make the loss of a batch an unbiased estimate of the full loss.
Samplers know their Q: `sampler.pair_probabilities(labels)` returns it, `sampler.importance(labels)` the weights to
pass to a loss.
"""

from tfdml.importance.probabilities import PairProbabilities, induced_lambda
from tfdml.importance.simulation import simulated_probabilities
from tfdml.importance.weights import ImportanceWeights

__all__ = [
    "ImportanceWeights",
    "PairProbabilities",
    "induced_lambda",
    "simulated_probabilities",
]


def __dir__() -> list[str]:
    return __all__
