"""The metric-learning losses of TensorFlow Addons 0.23 for Keras 3: same names, arguments, defaults and values.

`import tensorflow_addons as tfa` and `tfa.losses.X` become `from tfdml import addons` and `addons.X`. Value and
gradient are the same wherever the gradient of Addons is finite; where Addons gives NaN, the docstrings say what is
returned. Integer labels are compared as integers, so that large class ids are not merged; half-precision inputs are
computed and returned in float32. Invalid options and shapes raise ValueError. All take `name`, `reduction` and `dtype`
of `keras.losses.Loss`; Addons ignores the reduction except in `ContrastiveLoss`.

`tfdml.losses` has these losses and others, with one value per anchor, over any pairs.
"""

import math
import numbers
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import keras
import numpy as np
from keras import ops

from tfdml._core.checks import as_unmasked, require
from tfdml.losses.base import FunctionLoss
from tfdml.losses.functional import lifted_structure
from tfdml.pairs import all_pairs, dot, pairs_with
from tfdml.pairs.base import Tensor
from tfdml.pairs.distances import cosine_distance
from tfdml.pairs.positives import at, for_each_positive, put, with_gradient

__all__ = [
    "ContrastiveLoss",
    "LiftedStructLoss",
    "NpairsLoss",
    "NpairsMultilabelLoss",
    "TripletHardLoss",
    "TripletSemiHardLoss",
]

# Its own package name: `tfdml.losses` also has a ContrastiveLoss.
_serializable = keras.saving.register_keras_serializable("tfdml.addons")

Metric: TypeAlias = Literal["L2", "squared-L2", "angular"] | Callable[[Tensor], Tensor]


def triplet_semihard_loss(
    y_true: Tensor, y_pred: Tensor, margin: float = 1.0, distance_metric: Metric = "L2"
) -> Tensor:
    """The scalar of `TripletSemiHardLoss`."""
    pairs, d = _distances(y_true, y_pred, distance_metric)
    is_negative = pairs.negative > 0
    farthest = ops.max(ops.where(is_negative, d, ops.min(d, axis=1, keepdims=True)), axis=1, keepdims=True)
    fixed, fixed_farthest = ops.stop_gradient(d), ops.stop_gradient(farthest)

    def add(p, exists, sums, gradient, farthest_gradient):
        d_ap = at(p, fixed)
        farther = is_negative & (fixed > d_ap)
        semi_hard = ops.any(farther, axis=1, keepdims=True)
        nearest = ops.min(ops.where(farther, fixed, float("inf")), axis=1, keepdims=True)
        violation = margin + d_ap - ops.where(semi_hard, nearest, fixed_farthest)
        active = exists[:, None] * ops.cast(violation >= 0, d.dtype)
        ties = ops.cast(farther & (fixed == nearest), d.dtype)
        return (
            sums + exists * ops.maximum(violation, 0.0)[:, 0],
            gradient + put(p, active, d) - active * ties / ops.maximum(ops.sum(ties, axis=1, keepdims=True), 1.0),
            farthest_gradient - ops.where(semi_hard, 0.0, active),
        )

    start = (ops.zeros_like(fixed[:, 0]), ops.zeros_like(fixed), ops.zeros_like(fixed_farthest))
    sums, gradient, farthest_gradient = for_each_positive(pairs, add, start)
    losses = with_gradient(with_gradient(sums, gradient, d), farthest_gradient, farthest)
    return ops.sum(losses) / ops.maximum(ops.sum(pairs.positive), 1.0)


def triplet_hard_loss(
    y_true: Tensor, y_pred: Tensor, margin: float = 1.0, soft: bool = False, distance_metric: Metric = "L2"
) -> Tensor:
    """The scalar of `TripletHardLoss`."""
    pairs, d = _distances(y_true, y_pred, distance_metric)
    smallest, largest = ops.min(d, axis=1, keepdims=True), ops.max(d, axis=1, keepdims=True)
    d_ap = ops.max(ops.where(pairs.positive > 0, d, smallest), axis=1)
    d_an = ops.min(ops.where(pairs.negative > 0, d, largest), axis=1)
    return ops.mean(ops.softplus(d_ap - d_an) if soft else ops.maximum(d_ap - d_an + margin, 0.0))


def lifted_struct_loss(labels: Tensor, embeddings: Tensor, margin: float = 1.0) -> Tensor:
    """The scalar of `LiftedStructLoss`."""
    pairs, d = _distances(labels, embeddings, "L2")
    return ops.mean(lifted_structure(pairs, margin=margin, distance=lambda pairs: d))


def npairs_loss(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The scalar of `NpairsLoss`."""
    s = _square(y_pred, None, "similarities")
    labels, match = _class_ids(y_true)
    return _mean_cross_entropy(pairs_with(labels, s, labels, s, match).positive, s)


def npairs_multilabel_loss(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The scalar of `NpairsMultilabelLoss`."""
    require(not hasattr(y_true, "dense_shape"), "a sparse y_true", "a dense one: tf.sparse.to_dense(y_true)")
    s, has_label = _square(y_pred, None, "similarities"), _floats(y_true)
    require(
        len(has_label.shape) == 2 and has_label.shape[0] in (None, s.shape[0]),
        f"y_true of shape {tuple(has_label.shape)} for y_pred of shape {tuple(s.shape)}",
        "(batch, classes) and (batch, batch)",
    )
    return _mean_cross_entropy(ops.matmul(has_label, ops.transpose(has_label)), s)


def contrastive_loss(y_true: Tensor, y_pred: Tensor, margin: float = 1.0) -> Tensor:
    """The values of `ContrastiveLoss`, in the shape of `y_pred`."""
    y, d = _floats(y_true), _floats(y_pred)
    shapes = tuple(y.shape), tuple(d.shape)
    require(
        None in shapes[0] + shapes[1] or math.prod(shapes[0]) == math.prod(shapes[1]),
        f"y_true of shape {shapes[0]} and y_pred of shape {shapes[1]}",
        "one label per distance",
    )
    y = ops.reshape(y, ops.shape(d))
    return y * ops.square(d) + (1.0 - y) * ops.square(ops.maximum(margin - d, 0.0))


def _class_ids(y_true):
    """Labels, and the `match` of `tfdml.pairs` for them: None for integers, else equality."""
    y_true = as_unmasked(y_true, "labels")
    labels = y_true if hasattr(y_true, "dtype") else np.asarray(y_true)
    if isinstance(labels, np.ndarray) and labels.dtype.kind == "f" and (labels == np.rint(labels)).all():
        labels = labels.astype("int64")  # some backends round float64
    require(
        len(labels.shape) == 1 or (len(labels.shape) == 2 and labels.shape[1] == 1),
        f"labels of shape {tuple(labels.shape)}",
        "(batch,) or (batch, 1): one class id per example",
    )
    is_integer = keras.backend.is_int_dtype(keras.backend.standardize_dtype(labels.dtype))
    return labels, None if is_integer else lambda a, b: ops.equal(a[:, None], b)


def _distances(y_true, y_pred, metric):
    """All pairs of a batch, and the matrix of their distances, `(batch, batch)`."""
    labels, match = _class_ids(y_true)
    pairs = all_pairs(labels, _floats(y_pred), match)
    return pairs, _distance_function(metric)(pairs)


def _distance_function(metric):
    """The function of `Pairs` for a metric."""
    if callable(metric):
        return lambda pairs: _square(metric(pairs.anchors), pairs.anchors.shape[0], "distances")
    require(metric in list(_METRICS), f"distance_metric={metric!r}", f"one of {list(_METRICS)} or a function")
    return _METRICS[metric]


def _squared(pairs):
    """Squared distances, rounded as in Addons, not as in `tfdml.pairs.squared`."""
    norms = ops.sum(ops.square(pairs.anchors), axis=1, keepdims=True)
    d = ops.maximum(norms + ops.transpose(norms) - 2.0 * dot(pairs), 0.0)
    return ops.where(pairs.positive + pairs.negative > 0, d, 0.0)


def _euclidean(pairs):
    """Distances, with gradient 0 where they are 0."""
    d = _squared(pairs)
    return ops.where(d == 0, 0.0, ops.sqrt(ops.where(d == 0, 1.0, d)))


_METRICS = {"L2": _euclidean, "squared-L2": _squared, "angular": cosine_distance}


def _square(matrix, rows, what):
    """A float tensor `(rows, rows)`; of any square shape if `rows` is None."""
    matrix = _floats(matrix)
    sizes = {rows, *matrix.shape} - {None}
    require(len(matrix.shape) == 2 and len(sizes) <= 1, f"{what} of shape {tuple(matrix.shape)}", "(batch, batch)")
    return matrix


def _floats(x):
    """A tensor of float32, or of float64 if it already is."""
    x = as_unmasked(x, "values")
    x = ops.convert_to_tensor(x)
    return ops.cast(x, keras.backend.result_type(x.dtype, "float32"))


def _mean_cross_entropy(weights, s):
    """Mean cross-entropy of logits, with weights scaled to sum to 1 per row; a row of zeros gives 0."""
    total = ops.sum(weights, axis=1, keepdims=True)
    shares = weights / ops.where(total == 0, 1.0, total)
    return -ops.mean(ops.sum(ops.cast(shares, s.dtype) * ops.log_softmax(s), axis=1))


class _AddonsLoss(FunctionLoss):
    """A Keras loss over a function `(y_true, y_pred, **settings)`."""

    def __init__(
        self,
        function: Callable[..., Tensor],
        settings: dict[str, Any],
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ):
        super().__init__(function, settings, name=name, reduction=reduction, dtype=dtype)
        margin = settings.get("margin", 0.0)
        require(isinstance(margin, numbers.Real) and math.isfinite(margin), f"margin={margin!r}", "a finite number")
        _distance_function(settings.get("distance_metric", "L2"))

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One value per row; a loss of the whole batch is repeated for every row."""
        y_pred = ops.convert_to_tensor(as_unmasked(y_pred, "values"))
        value = self.function(y_true, y_pred, **self.settings)
        return value if len(value.shape) else ops.broadcast_to(value, ops.shape(y_pred)[:1])


@_serializable
class TripletSemiHardLoss(_AddonsLoss):
    """Triplet loss of each positive pair with its semi-hard negative.

    (1 / P) sum_a sum_p max(0, margin + d_ap - d_an), where d_an is the smallest distance to a negative with d_an >
    d_ap, or the largest if there is none. P is the number of (ordered) positive pairs.

    `y_true` are class ids, `(batch,)` or `(batch, 1)`, integers or floats; `y_pred` are embeddings, `(batch, dim)`, not
    normalized. The loss is 0 without positives, where Addons gives NaN. With only one class, d_an is the smallest
    distance of the row, usually 0 to itself. Zero vectors have gradient 0 in "angular".

    See also: `tfdml.losses.TripletLoss` with `negatives=tfdml.miners.semi_hard_negatives`.

    Example: points on a line; both positive pairs are at 1, their negatives at 3 and 2.

        >>> x, labels = np.array([[0.0], [1.0], [3.0]], "float32"), np.array([0, 0, 1])
        >>> round(float(tfdml.addons.TripletSemiHardLoss(margin=1.5)(labels, x)), 4)  # (0 + 0.5) / 2
        0.25

    Args:
        margin: how much nearer positives must be, in units of the distance.
        distance_metric: "L2", "squared-L2", "angular" (1 - cosine similarity), or a function of `(batch, dim)`
            embeddings that returns the `(batch, batch)` matrix of distances.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, as in TensorFlow Addons.
    """

    def __init__(self, margin: float = 1.0, distance_metric: Metric = "L2", name: str | None = None, **options: Any):
        settings = {"margin": margin, "distance_metric": distance_metric}
        super().__init__(triplet_semihard_loss, settings, name, **options)


@_serializable
class TripletHardLoss(_AddonsLoss):
    """Triplet loss of each row's farthest positive and nearest negative.

    (1 / batch) sum_a max(0, margin + max_p d_ap - min_n d_an)

    With `soft`, the term is log(1 + exp(max_p d_ap - min_n d_an)). `y_true` and `y_pred` are as in
    `TripletSemiHardLoss`. A row without a positive takes the smallest distance of the row, usually 0 to itself, as
    d_ap, and counts. A row without a negative takes the largest distance as d_an, so that the loss of a batch with one
    class is the margin. Zero vectors have gradient 0 in "angular".

    See also: `tfdml.losses.BatchHardTripletLoss`, which takes miners and pairings.

    Example: points on a line; 1.5 + d_ap - d_an is 1.5 + 1 - 3, 1.5 + 1 - 2 and, without a positive, 1.5 + 0 - 2.

        >>> x, labels = np.array([[0.0], [1.0], [3.0]], "float32"), np.array([0, 0, 1])
        >>> round(float(tfdml.addons.TripletHardLoss(margin=1.5)(labels, x)), 4)  # (0 + 0.5 + 0) / 3
        0.1667

    Args:
        margin: how much nearer positives must be, in units of the distance; not used by `soft`.
        soft: the soft margin. Unlike the soft margin of Addons, it does not overflow for distances above 88.
        distance_metric: as in `TripletSemiHardLoss`.

    Source: Hermans, Beyer, Leibe, In Defense of the Triplet Loss, 2017, eq. 5, as in TensorFlow Addons.
    """

    def __init__(
        self,
        margin: float = 1.0,
        soft: bool = False,
        distance_metric: Metric = "L2",
        name: str | None = None,
        **options: Any,
    ):
        settings = {"margin": margin, "soft": soft, "distance_metric": distance_metric}
        super().__init__(triplet_hard_loss, settings, name, **options)


@_serializable
class LiftedStructLoss(_AddonsLoss):
    """Lifted structured loss on euclidean distances: the mean of `tfdml.losses.functional.lifted_structure`.

    (1 / (2 P)) sum_a sum_p max(0, d_ap + log(sum_n exp(margin - d_an) + sum_n exp(margin - d_pn)))^2

    `y_true` and `y_pred` are as in `TripletSemiHardLoss`. The loss is 0 without positives or with only one class, where
    Addons gives NaN.

    See also: `tfdml.losses.LiftedStructureLoss`, which takes miners and pairings.

    Example: points on a line; two ordered positives at 1, whose negatives are at 3 and 2.

        >>> x, labels = np.array([[0.0], [1.0], [3.0]], "float32"), np.array([0, 0, 1])
        >>> round(float(tfdml.addons.LiftedStructLoss()(labels, x)), 4)  # (1 + log(e^-2 + e^-1))^2 / 2
        0.0491

    Args:
        margin: distance up to which negatives count, with a soft threshold.

    Source: Oh Song, Xiang, Jegelka, Savarese, Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016,
    eq. 4, as in TensorFlow Addons.
    """

    def __init__(self, margin: float = 1.0, name: str | None = None, **options: Any):
        super().__init__(lifted_struct_loss, {"margin": margin}, name, **options)


@_serializable
class NpairsLoss(_AddonsLoss):
    """Cross-entropy of each row of similarities with the columns of its class.

    -(1 / batch) sum_i mean_{j: y_j = y_i} log softmax_j(s_ij)

    `y_true` are class ids of the rows and of the columns, `(batch,)` or `(batch, 1)`, integers or floats; `y_pred` are
    similarities of two views of the batch, `(batch, batch)`.

    See also: `tfdml.losses.NPairsLoss`, which takes embeddings.

    Example: two classes; each row is equally similar to both columns.

        >>> round(float(tfdml.addons.NpairsLoss()(np.array([0, 1]), np.ones((2, 2), "float32"))), 4)  # log 2
        0.6931

    Source: Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016, as in TensorFlow
    Addons.
    """

    def __init__(self, name: str = "npairs_loss", **options: Any):
        super().__init__(npairs_loss, {}, name, **options)


@_serializable
class NpairsMultilabelLoss(_AddonsLoss):
    """Cross-entropy of each row of similarities with the columns that share labels with it.

    -(1 / batch) sum_i sum_j (L_ij / sum_k L_ik) log softmax_j(s_ij), where L_ij is the number of labels i and j share

    `y_true` is `(batch, classes)`, 1 where a row has a label, else 0; dense, while Addons also takes sparse tensors.
    `y_pred` are similarities of two views of the batch, `(batch, batch)`. A row without labels counts as 0, where
    Addons gives NaN.

    See also: `NpairsLoss` for one label per row.

    Example: rows that share one of two labels; all similarities are equal.

        >>> labels = np.array([[1, 1], [0, 1]])
        >>> round(float(tfdml.addons.NpairsMultilabelLoss()(labels, np.ones((2, 2), "float32"))), 4)  # log 2
        0.6931

    Source: as `NpairsLoss`.
    """

    def __init__(self, name: str = "npairs_multilabel_loss", **options: Any):
        super().__init__(npairs_multilabel_loss, {}, name, **options)


@_serializable
class ContrastiveLoss(_AddonsLoss):
    """Contrastive loss of given pairs, one value per pair.

    y d^2 + (1 - y) max(0, margin - d)^2

    `y_true` is 1 for pairs of one class and 0 for others; `y_pred` are distances. Both are `(batch,)` or `(batch, 1)`.
    Addons would broadcast one shape against the other to all pairs of the batch; here each row keeps its own label.

    See also: `tfdml.losses.ContrastiveLoss`, which takes embeddings and their labels.

    Example: a positive pair at distance 0.5 and a negative at 0.7, within the margin of 1.

        >>> round(float(tfdml.addons.ContrastiveLoss()(np.array([1, 0]), np.array([0.5, 0.7], "float32"))), 4)
        0.17

    Source: Hadsell, Chopra, LeCun, Dimensionality Reduction by Learning an Invariant Mapping, CVPR 2006, as in
    TensorFlow Addons.
    """

    def __init__(
        self,
        margin: float = 1.0,
        reduction: str | None = "sum_over_batch_size",
        name: str = "contrastive_loss",
        **options: Any,
    ):
        super().__init__(contrastive_loss, {"margin": margin}, name, reduction, **options)


def __dir__():
    return __all__
