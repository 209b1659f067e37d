"""Analysis of losses: pair weights, active pairs, distances of pairs, and the loss on a whole training set."""

from tfdml.analysis.active_pairs import active_pairs
from tfdml.analysis.full_loss import full_loss
from tfdml.analysis.gradient_variance import gradient_variance
from tfdml.analysis.label_noise import label_noise
from tfdml.analysis.loss_over_distance import plot_loss_over_distance
from tfdml.analysis.pair_histogram import pair_histogram, plot_pair_histogram
from tfdml.analysis.pair_weights import pair_weights, plot_pair_weights

__all__ = [
    "active_pairs",
    "full_loss",
    "gradient_variance",
    "label_noise",
    "pair_histogram",
    "pair_weights",
    "plot_loss_over_distance",
    "plot_pair_histogram",
    "plot_pair_weights",
]


def __dir__():
    return __all__
