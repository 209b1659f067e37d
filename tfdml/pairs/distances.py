"""Distances and similarities of `Pairs`."""

from collections.abc import Callable

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.pairs.base import Distance, Pairs, Tensor, in_blocks
from tfdml.pairs.batch_reductions import of_references, require_whole_batch
from tfdml.pairs.products import (
    ZERO_NORM_SQUARED,
    as_float,
    cosines_between,
    normalized_rows,
    products_between,
    products_within,
    square_norms,
)
from tfdml.pairs.squared_distances import (
    central_point,
    columns_of_references,
    eps,
    euclidean_within,
    root,
    squared_between,
    squared_within,
)


def normalized(pairs: Pairs) -> Pairs:
    """The same pairs with embeddings scaled to norm 1. A zero vector stays zero, with gradient 0.

    Example:

        >>> pairs = tfdml.pairs.normalized(tfdml.pairs.all_pairs([0, 1], [[3.0, 4.0], [0.0, 2.0]]))
        >>> np.asarray(pairs.anchors, float).round(4).tolist()
        [[0.6, 0.8], [0.0, 1.0]]
    """
    return _changed(lambda x: normalized_rows(as_float(x)), pairs)


def _changed(function, pairs):
    """The same pairs with a function of their anchors and of their references."""
    references = None if pairs.is_self else of_references(function, pairs, has_gradient=True)
    return pairs._replace(anchors=function(pairs.anchors), references=references)


@serializable
def dot(pairs: Pairs) -> Tensor:
    """Dot products of anchors and references, `(anchors, references)`, in float32 at least.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 1], [[3.0, 4.0], [0.0, 2.0]])
        >>> np.asarray(tfdml.pairs.dot(pairs)).tolist()  # 3 * 0 + 4 * 2 = 8
        [[25.0, 8.0], [8.0, 4.0]]
    """
    if pairs.is_self:
        return products_within(as_float(pairs.anchors))
    anchors, references = as_float(pairs.anchors), as_float(pairs.references)
    if len(references.shape) == 3:
        return ops.sum(anchors[:, None] * references, axis=-1)
    return products_between(anchors, references, of_references(lambda x: ops.transpose(as_float(x)), pairs))


@serializable
def cosine(pairs: Pairs) -> Tensor:
    """Cosine similarities, `(anchors, references)` in [-1, 1]. A zero vector has similarity 0, with gradient 0.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 1], [[3.0, 4.0], [0.0, 2.0]])
        >>> np.asarray(tfdml.pairs.cosine(pairs), float).round(4).tolist()  # 8 / (5 * 2)
        [[1.0, 0.8], [0.8, 1.0]]
    """
    if pairs.block is not None or pairs.references is None or len(pairs.references.shape) == 3:
        return dot(normalized(pairs))
    return cosines_between(normalized_rows(as_float(pairs.anchors)), as_float(pairs.references))


@serializable
def squared(pairs: Pairs) -> Tensor:
    """Squared euclidean distances, `(anchors, references)`, with gradient 0 between duplicates.

    Rows closer than the rounding error, about 1e-5 of their norm in float32 and 1e-14 in float64, are duplicates.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0, 0.0]], [0, 1], [[3.0, 4.0], [0.0, 2.0]])
        >>> np.asarray(tfdml.pairs.squared(pairs)).tolist()  # 9 + 16 and 4
        [[25.0, 4.0]]
    """
    if pairs.is_self:
        return squared_within(as_float(pairs.anchors))
    return ops.relu(_squared(pairs))  # its gradient at 0 is 0


@serializable
def euclidean(pairs: Pairs) -> Tensor:
    """Euclidean distances, `(anchors, references)`, with gradient 0 (not NaN) between duplicates.

    Duplicates, as in `squared`, have distance 1e-18, which keeps the gradient of the square root finite.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0, 0.0]], [0, 1], [[3.0, 4.0], [0.0, 2.0]])
        >>> np.asarray(tfdml.pairs.euclidean(pairs)).tolist()
        [[5.0, 2.0]]
    """
    return euclidean_within(as_float(pairs.anchors)) if pairs.is_self else root(_squared(pairs))


@serializable
def two_way_euclidean(pairs: Pairs) -> Tensor:
    """min(d_ij, d_ji): the distance of anchor i and reference j, or of anchor j and reference i if it is smaller.

    Row i of anchors and references is a pair of one class, as in `even_against_odd`. The nearest negative is then the
    nearest to either of the two (hardest-in-batch mining).

    Example:

        >>> pairs = tfdml.pairs.even_against_odd([0, 0, 1, 1], [[0.0], [2.0], [3.0], [7.0]])
        >>> np.asarray(tfdml.pairs.euclidean(pairs)).tolist()  # negatives at 7 and 1
        [[2.0, 7.0], [1.0, 4.0]]
        >>> np.asarray(tfdml.pairs.two_way_euclidean(pairs)).tolist()  # the nearer of the two for both anchors
        [[2.0, 1.0], [1.0, 4.0]]

    Args:
        pairs: `Pairs` with the same number of anchors and references, which all anchors share.

    Source: Mishchuk, Mishkin, Radenovic, Matas, Working Hard to Know Your Neighbor's Margins: Local Descriptor Learning
    Loss, NeurIPS 2017 (HardNet), eq. 1 and 2.
    """
    require_whole_batch(pairs, "two_way_euclidean", "it needs the distances from all references to all anchors")
    d = euclidean(pairs)
    expected = "as many references as anchors, in pairs. Use pairing=tfdml.pairs.even_against_odd"
    require(d.shape[0] == d.shape[1], f"distances of shape {tuple(d.shape)}", expected)
    return ops.minimum(d, ops.transpose(d))


def _squared(pairs):
    """Squared distances to other references, 0 between duplicates, of vectors relative to a point near their mean.

    Rounding errors grow with the norms, and distances do not depend on the origin.
    """
    references = as_float(pairs.reference_embeddings)
    if len(references.shape) == 3:
        return ops.sum(ops.square(as_float(pairs.anchors)[:, None] - references), axis=-1)
    center = of_references(lambda x: central_point(as_float(x)), pairs)
    pairs = _changed(lambda x: as_float(x) - center, pairs)
    is_pair = ops.stop_gradient(pairs.positive + pairs.negative) > 0
    return squared_between(pairs.anchors, pairs.references, of_references(columns_of_references, pairs), is_pair)


@serializable
def cosine_distance(pairs: Pairs) -> Tensor:
    """1 - cosine similarity, `(anchors, references)` in [0, 2]."""
    return 1.0 - cosine(pairs)


@serializable
def snr(pairs: Pairs) -> Tensor:
    """Inverse signal-to-noise ratios, `(anchors, references)`: var(r - a) / var(a), variances over dimensions.

    The anchor is the signal, so the distance is not symmetric. It does not change with the scale of all embeddings. An
    anchor whose entries are equal, up to rounding, has no signal: its distances are 0, with gradient 0.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 1], [[1.0, -1.0], [3.0, -3.0]])  # variances 1 and 9, difference 4
        >>> np.asarray(tfdml.pairs.snr(pairs), float).round(4).tolist()  # 4 / 1 and 4 / 9
        [[0.0, 4.0], [0.4444, 0.0]]

    Source: Yuan, Deng, Tang, Tang, Chen, Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning, CVPR
    2019.
    """
    pairs = _changed(lambda x: _centered_rows(as_float(x)), pairs)
    square = square_norms(pairs.anchors)
    is_zero = square <= ZERO_NORM_SQUARED
    return ops.where(is_zero, 0.0, squared(pairs) / ops.where(is_zero, 1.0, square))


def _centered_rows(x):
    """Rows minus their mean; 0 where the difference is rounding error."""
    centered = x - ops.mean(x, axis=-1, keepdims=True)
    rounding = 4.0 * eps(x) ** 2 * square_norms(x)
    return ops.where(square_norms(centered) <= rounding, 0.0, centered)


for _distance in (cosine, cosine_distance, dot, euclidean, snr, squared):
    in_blocks(_distance)
DISTANCES = {"euclidean": euclidean, "squared": squared, "cosine": cosine_distance, "snr": snr}


def distance_function(distance: Distance) -> Callable[[Pairs], Tensor]:
    """The distance function with this name, `Pairs -> (anchors, references)`; a function is returned unchanged."""
    if callable(distance) and not hasattr(type(distance), "matrix"):
        return distance
    expected = "a function of Pairs. This layer maps embeddings: add it to the network, as its last layer"
    require(not callable(distance), f"distance={distance!r}", expected)
    require(distance in DISTANCES, f"distance={distance!r}", f"one of {sorted(DISTANCES)} or a function of Pairs")
    return DISTANCES[str(distance)]
