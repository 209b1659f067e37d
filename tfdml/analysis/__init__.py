"""Analysis: what a loss does to the pairs of a batch."""

from tfdml.analysis.pair_weights import pair_weights, plot_pair_weights

__all__ = ["pair_weights", "plot_pair_weights"]
