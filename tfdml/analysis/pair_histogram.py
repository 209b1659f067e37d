"""Histograms of the distances of pairs, with or without a miner, and the density for random points on the sphere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from keras import ops

from tfdml._core.checks import require, require_whole
from tfdml._core.optional import new_panels
from tfdml.analysis._embeddings import l2_normalize, require_matrix
from tfdml.analysis.full_loss import pairs_in_chunks
from tfdml.miners import log_sphere_density
from tfdml.pairs import Pairs, all_pairs, euclidean
from tfdml.typing import Labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PairHistogram(NamedTuple):
    """The result of `pair_histogram`."""

    edges: np.ndarray
    positive: np.ndarray
    negative: np.ndarray


def pair_histogram(
    embeddings: npt.ArrayLike,
    labels: Labels,
    *,
    bins: int = 50,
    miner: Callable[[Pairs], Pairs] | None = None,
    match: Callable[..., Any] | None = None,
) -> PairHistogram:
    """Number of positive and negative pairs of a set at each euclidean distance.

    Example: two ordered positives are at 0.63, two negatives at 0.63 and two at 1.41.

        >>> x, labels = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), np.array([0, 0, 1])
        >>> histogram = tfdml.analysis.pair_histogram(x, labels, bins=4)
        >>> histogram.edges, histogram.positive, histogram.negative
        (array([0. , 0.5, 1. , 1.5, 2. ]), array([0., 2., 0., 0.]), array([0., 2., 2., 0.]))

    Args:
        embeddings: `(examples, dim)` array. The function scales it to norm 1, for distances in [0, 2].
        labels: `(examples,)` integer class ids, or labels that `match` accepts.
        bins: number of bins of equal width.
        miner: a function `Pairs -> Pairs`; each pair then counts with its weight, and the set is one batch with all its
            pairs in memory. None counts every ordered pair of two examples once.
        match: as in `tfdml.pairs.all_pairs`.

    Returns:
        A record: `edges`, `(bins + 1,)` distances from 0 to 2; and `positive` and `negative`, `(bins,)`, the sums of
        the weights of the ordered pairs in each bin, their number without a miner, all 0 for a set without pairs.
        `positive / positive.sum() / np.diff(edges)` is a density. You may add histograms of several batches, for
        example for a random miner: `a.negative + b.negative`. Without a miner, time grows with the square of the number
        of examples. Memory does not: it compares 2^23 pairs at a time, in float32.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, figure 7, and
    figure 3b with a miner.
    """
    require_whole("bins", bins, 1)
    require_matrix(embeddings, "embeddings, labels")
    x, labels = l2_normalize(embeddings).astype("float32"), np.asarray(labels)
    chunks = pairs_in_chunks(x, labels, match) if miner is None else [miner(all_pairs(labels, x, match=match))]
    positive, negative = np.zeros(bins), np.zeros(bins)
    for pairs in chunks:
        d = ops.convert_to_numpy(euclidean(pairs))
        positive += _counts(d, ops.convert_to_numpy(pairs.positive), bins)
        negative += _counts(d, ops.convert_to_numpy(pairs.negative), bins)
    return PairHistogram(np.linspace(0.0, 2.0, bins + 1), positive, negative)


def plot_pair_histogram(histograms: Mapping[str, PairHistogram], *, dim: npt.ArrayLike | None = None) -> Figure:
    """Draw the densities of the distances of negative and of positive pairs, one line per histogram.

    Example:

        >>> x, labels = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), np.array([0, 0, 1])
        >>> figure = tfdml.analysis.plot_pair_histogram({"test": tfdml.analysis.pair_histogram(x, labels)}, dim=3)
        >>> figure.savefig("pairs.png")
        >>> len(figure.axes)  # negatives and positives
        2

    Args:
        histograms: dict of title to the result of `pair_histogram`: epochs of a training, or sampling strategies.
        dim: None, or one dimension or several, of 3 or more: the negatives are shown beside the density q(d) of the
            distance of two random points on the unit sphere of this dimension.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, figures 2, 3b, 7.
    """
    require(bool(histograms), "no histograms", "a dict of title to the result of pair_histogram")
    kinds = ["negative"] + ["positive"] * any(h.positive.any() for h in histograms.values())
    figure, panels = new_panels("plot_pair_histogram", [f"{kind} pairs" for kind in kinds], (4.8, 3.4), sharex=True)
    for panel, kind in zip(panels, kinds, strict=True):
        for title, histogram in histograms.items():
            counts = getattr(histogram, kind)
            density = counts / max(counts.sum(), 1e-300) / np.diff(histogram.edges)
            panel.stairs(density, histogram.edges, label=title, linewidth=1.5, alpha=0.8)
        panel.set_xlim(0.0, 2.0)
    if dim is not None:
        _plot_sphere_densities(panels[0], np.atleast_1d(dim).tolist())
    panels[0].legend(fontsize=8)
    figure.supxlabel("distance")
    figure.supylabel("density")
    return figure


def _counts(d, weights, bins):
    is_pair = weights > 0
    # The distance of opposite vectors may be rounded above 2 where matrix products have fewer digits, as on many
    # accelerators.
    return np.histogram(np.minimum(d[is_pair], 2.0), bins, (0.0, 2.0), weights=weights[is_pair].astype("float64"))[0]


def _plot_sphere_densities(panel, dims):
    """q(d) of each dimension, as dashed lines."""
    d = np.linspace(0.0, 2.0, 402)[1:-1]
    densities = [np.exp(ops.convert_to_numpy(log_sphere_density(d, dim))) for dim in dims]
    first, *_ = panel.plot(d, np.transpose(densities), "--", color="black", linewidth=1)
    first.set_label(f"q(d), dim {', '.join(map(str, dims))}")
