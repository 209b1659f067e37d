"""Pairings: functions that turn a batch of labels and embeddings into `Pairs`."""

import functools
from collections.abc import Callable

import keras
import numpy as np

from tfdml._core.backends import are_plain, ops
from tfdml._core.checks import as_unmasked, how_to_number, require
from tfdml._core.serialization import serializable
from tfdml.pairs.base import Match, Pairs, Tensor, value_of
from tfdml.pairs.comparison import Comparison, by_relevance, matched, weighted
from tfdml.pairs.conditions import note_labels


def of_comparison(comparison: Callable[..., Comparison]) -> Callable[..., Pairs]:
    """The pairing of a `(labels, embeddings, match=None) -> Comparison`, its attribute: it declares blocks."""

    @functools.wraps(comparison)
    def pairing(labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Pairs:
        return comparison(labels, embeddings, match).pairs()

    pairing.comparison = comparison  # type: ignore[attr-defined]
    return pairing


@serializable
@of_comparison
def all_pairs(labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Comparison:
    """Every row of a batch against every other row.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1], [[0.0], [1.0], [3.0]])
        >>> np.asarray(pairs.positive, int).tolist()
        [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
        >>> np.asarray(pairs.negative, int).tolist()
        [[0, 0, 1], [0, 0, 1], [1, 1, 0]]

    Args:
        labels: `(batch,)` or `(batch, 1)` integer class ids; with `match`, any array with one entry per row.
        embeddings: `(batch, dim)` floats.
        match: function of two arrays of labels, `(A, ...)` and `(R, ...)`, that returns a boolean matrix `(A, R)`:
            whether each pair is positive. Equality of class ids by default.

    Returns:
        `Pairs` of `batch` anchors against themselves, with `references` None. A batch of one row has no pairs.
    """
    labels, embeddings = checked(labels, embeddings, match)

    def others(rows):
        return rows[:, None] != ops.arange(ops.shape(labels)[0], dtype="int32")

    return Comparison(embeddings, None, labels, labels, match, others)


@serializable
def consecutive_pairs(labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Pairs:
    """Row 0 against row 1, row 2 against row 3, and so on, for a batch that is a list of pairs.

    Example:

        >>> pairs = tfdml.pairs.consecutive_pairs([5, 5, 5, 7], [[0.0], [1.0], [0.0], [3.0]])
        >>> np.asarray(pairs.positive, int).tolist(), np.asarray(pairs.negative, int).tolist()
        ([[1], [0]], [[0], [1]])

    Args:
        labels, embeddings: as in `all_pairs`; the number of rows is even.
        match: as in `all_pairs`; it returns the matrix of all pairs, whose diagonal is used.

    Returns:
        `Pairs` of one column: `pairs` anchors, each with its own reference, so `references` is `(pairs, 1, dim)`.
    """
    labels, embeddings = checked(labels, embeddings, match)
    anchor_labels, reference_labels = _even_and_odd(labels)
    anchors, references = _even_and_odd(embeddings)
    if match is None:
        return weighted(anchors, references[:, None], anchor_labels, reference_labels[:, None])
    relevant = ops.diagonal(matched(match, anchor_labels, reference_labels))[:, None]
    return by_relevance(anchors, references[:, None], anchor_labels, reference_labels[:, None], relevant)


@serializable
@of_comparison
def even_against_odd(labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Comparison:
    """Rows 0, 2, 4, ... as anchors against rows 1, 3, 5, ..., the layout of the N-pair loss.

    If each pair of rows 2k and 2k + 1 is a class of its own, anchors have one positive and `batch / 2 - 1` negatives.

    Example:

        >>> pairs = tfdml.pairs.even_against_odd([5, 5, 7, 7], [[0.0], [1.0], [3.0], [5.0]])
        >>> np.asarray(pairs.positive, int).tolist()
        [[1, 0], [0, 1]]

    Args:
        labels, embeddings, match: as in `all_pairs`; the number of rows is even.
    """
    labels, embeddings = checked(labels, embeddings, match)
    anchor_labels, reference_labels = _even_and_odd(labels)
    anchors, references = _even_and_odd(embeddings)
    return Comparison(anchors, references, anchor_labels, reference_labels, match)


@serializable
@of_comparison
def two_views(labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Comparison:
    """Every row of a batch against every other row, where rows 2k and 2k + 1 are two views of one example.

    The other view is the only positive, and all other rows are negatives: self-supervised learning, without classes.

    Example:

        >>> pairs = tfdml.pairs.two_views(None, [[0.0], [1.0], [3.0], [5.0]])
        >>> np.asarray(pairs.positive, int).tolist()
        [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]

    Args:
        labels: ignored; None, or anything with one entry per row.
        embeddings: `(2 examples, dim)` floats.
        match: None: labels are not compared.

    Returns:
        `Pairs` of `2 examples` anchors against themselves; the label of a row is the number of its example, k.

    Source: Chen, Kornblith, Norouzi, Hinton, A Simple Framework for Contrastive Learning of Visual Representations,
    ICML 2020.
    """
    require(match is None, f"match={match!r} for two views", "match=None: labels are not compared")
    embeddings = ops.convert_to_tensor(as_unmasked(embeddings, "embeddings"))
    _require_even(embeddings)
    return all_pairs.comparison(ops.arange(ops.shape(embeddings)[0], dtype="int32") // 2, embeddings)


def pairs_with(
    labels: Tensor,
    embeddings: Tensor,
    reference_labels: Tensor,
    references: Tensor,
    match: Match | None = None,
    *,
    allowed: Tensor | None = None,
) -> Pairs:
    """Every row of a batch against every row of other references, such as a memory, proxies or a gallery.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0, 1], [[0.0], [1.0]], [1, 1, 0], [[2.0], [3.0], [4.0]])
        >>> np.asarray(pairs.positive, int).tolist()
        [[0, 0, 1], [1, 1, 0]]

    Args:
        labels, embeddings, match: as in `all_pairs`.
        reference_labels: `(references,)` or `(references, 1)` integer class ids, or labels that `match` accepts.
        references: `(references, dim)` floats. A row of `embeddings` among them must be excluded by `allowed`.
        allowed: booleans that broadcast to `(anchors, references)`: which combinations are pairs; None for all.
    """
    comparison = compare(labels, embeddings, reference_labels, references, match)
    return comparison.pairs() if allowed is None else comparison._replace(allowed=lambda _: allowed).pairs()


def compare(
    labels: Tensor, embeddings: Tensor, reference_labels: Tensor, references: Tensor, match: Match | None = None
) -> Comparison:
    """The comparison of every row of a batch with every row of other references; arguments as in `pairs_with`."""
    labels, embeddings = checked(labels, embeddings, match)
    reference_labels, references = checked(reference_labels, references, match)
    require(
        embeddings.shape[1] == references.shape[1],
        f"embeddings of dimension {embeddings.shape[1]} and references of dimension {references.shape[1]}",
        "the same dimension. Embed both with one model",
    )
    return Comparison(embeddings, references, labels, reference_labels, match)


@serializable
@of_comparison
def two_towers(labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Comparison:
    """The embeddings of one tower as anchors against all embeddings of another tower, for `tfdml.models.TwoTowers`.

    Example:

        >>> towers = [[[0.0], [1.0]], [[3.0], [5.0]]]  # anchors 0 and 3, references 1 and 5
        >>> pairs = tfdml.pairs.two_towers([0, 1], towers)
        >>> np.asarray(pairs.positive, int).tolist()
        [[1, 0], [0, 1]]

    Args:
        labels: `(batch,)` or `(batch, 1)` integer class ids if row i of both towers is of one class; `(batch, 2)` for
            class ids of each tower. With `match`, labels that it accepts, `(batch, ...)` or `(batch, 2, ...)`.
        embeddings: `(batch, 2, dim)` floats: `[:, 0]` are the anchors, `[:, 1]` the references.
        match: as in `all_pairs`.

    Returns:
        `Pairs` of `batch` anchors and `batch` references; every combination is a pair, also row i with row i.
    """
    labels, embeddings = usable(labels, embeddings)
    embeddings = ops.convert_to_tensor(embeddings)
    require(
        len(embeddings.shape) == 3 and embeddings.shape[1] == 2,
        f"embeddings of shape {tuple(embeddings.shape)} for two towers",
        "(batch, 2, dim). Build the model as tfdml.models.TwoTowers(query, gallery)",
    )
    anchors, references = ops.unstack(embeddings, num=2, axis=1)
    labels = labels if hasattr(labels, "shape") else np.asarray(labels)
    if len(labels.shape) > 1 and labels.shape[1] == 2:
        return compare(labels[:, 0], anchors, labels[:, 1], references, match)
    return compare(labels, anchors, labels, references, match)


@serializable
def labeled_pairs(labels: Tensor, embeddings: Tensor) -> Pairs:
    """Row 0 against row 1, row 2 against row 3, and so on, where labels say which pairs are similar.

    See also: `consecutive_pairs` for class ids.

    Example:

        >>> pairs = tfdml.pairs.labeled_pairs([1, 1, 0, 0], [[0.0], [1.0], [0.0], [3.0]])
        >>> np.asarray(pairs.positive, int).tolist(), np.asarray(pairs.negative, int).tolist()
        ([[1], [0]], [[0], [1]])

    Args:
        labels: `(2 pairs,)` or `(2 pairs, 1)` integers, equal on both rows of a pair: 1 if similar, else 0.
        embeddings: `(2 pairs, dim)` floats.

    Returns:
        `Pairs` of one column: `pairs` anchors, each with its own reference, so `references` is `(pairs, 1, dim)`.
        Examples have no classes here: the label of anchor k is k, and its reference has the same label if similar.

    Raises:
        ValueError: an odd number of rows, or labels that are not 0 or 1 or differ within a pair. In a compiled
            function, which cannot raise, the anchor of such a pair is NaN, and so is the loss.
    """
    labels, embeddings = checked(labels, embeddings)
    similar, repeated = _even_and_odd(labels)
    anchors, references = _even_and_odd(embeddings)
    valid = ops.equal(similar, repeated) & (ops.equal(similar, 0) | ops.equal(similar, 1))
    numbers = value_of(labels)
    note_labels(_require_pair_labels) if numbers is None else _require_pair_labels(numbers)
    anchors = anchors + ops.cast(ops.where(valid, 0.0, float("nan")), anchors.dtype)[:, None]
    relevant = ops.equal(similar, 1)[:, None]
    ids = ops.arange(ops.shape(similar)[0])
    reference_labels = ops.where(relevant, ids[:, None], -1 - ids[:, None])
    return by_relevance(anchors, references[:, None], ids, reference_labels, relevant)


@serializable
def triplet_rows(labels: Tensor, embeddings: Tensor) -> Pairs:
    """Rows 0, 3, 6, ... as anchors, each against its own positive and negative, the two rows that follow it.

    Example:

        >>> pairs = tfdml.pairs.triplet_rows([0, 0, 0], [[0.0], [1.0], [3.0]])
        >>> np.asarray(pairs.positive, int).tolist(), np.asarray(pairs.negative, int).tolist()
        ([[1, 0]], [[0, 1]])

    Args:
        labels: `(3 triplets,)` or `(3 triplets, 1)` integers, which are not used.
        embeddings: `(3 triplets, dim)` floats: an anchor, its positive, its negative, and so on.

    Returns:
        `Pairs` of two columns, a positive and a negative: `triplets` anchors, and `references` of shape
        `(triplets, 2, dim)`. Examples have no classes here: the label of anchor k and of its positive is k.
    """
    _, embeddings = checked(labels, embeddings)
    rows = embeddings.shape[0]
    require(rows is None or rows % 3 == 0, f"a batch of {rows} rows for triplets", "a number divisible by 3")
    anchors, positives, negatives = _every_nth(embeddings, 3)
    ids = ops.arange(ops.shape(anchors)[0])
    relevant = ops.broadcast_to(np.array([[True, False]]), (ops.shape(anchors)[0], 2))
    references = ops.stack([positives, negatives], axis=1)
    reference_labels = ops.where(relevant, ids[:, None], -1 - ids[:, None])
    return by_relevance(anchors, references, ids, reference_labels, relevant)


def usable(labels: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """The labels and embeddings of a batch, without masked entries, with class ids that the backend can represent."""
    if ops.is_tensor(labels) and ops.is_tensor(embeddings):
        return labels, embeddings
    labels, embeddings = as_unmasked(labels, "labels"), as_unmasked(embeddings, "embeddings")
    if not (ops.is_tensor(labels) or isinstance(labels, keras.KerasTensor)):
        require_ids_that_fit(np.asarray(labels))
    return labels, embeddings


def require_ids_that_fit(ids: Tensor) -> None:
    """Raise a ValueError if the backend cannot represent all of these class ids."""
    if ids.dtype.kind not in "iu" or ids.ndim == 0:
        return
    dtype = keras.backend.standardize_dtype(ops.convert_to_tensor(ids[:0]).dtype)
    lost = ids[ids.astype(dtype) != ids]
    if lost.size:
        raise ValueError(
            f"Received label {lost.flat[0]} on a backend that holds 32-bit integers only, expected ids below 2**31. "
            "Renumber the classes (numpy.unique(labels, return_inverse=True)), or set JAX_ENABLE_X64=1."
        )


def _even_and_odd(rows):
    _require_even(rows)
    return _every_nth(rows, 2)


def _every_nth(rows, n):
    """Rows 0, n, 2n, ..., rows 1, n + 1, ..., and so on, without strides, whose gradient is slow."""
    return ops.unstack(ops.reshape(rows, (-1, n, *rows.shape[1:])), num=n, axis=1)


def _require_even(rows):
    number = rows.shape[0]
    require(
        number is None or number % 2 == 0,
        f"a batch of {number} rows for pairs of neighboring rows",
        "an even number: rows 2k and 2k + 1 are a pair. Drop the last row, or use pairing=all_pairs",
    )


def checked(labels: Tensor, embeddings: Tensor, match: Match | None = None) -> tuple[Tensor, Tensor]:
    """Labels and `(batch, dim)` float embeddings as tensors; labels are `(batch,)` integers, or any with `match`."""
    if match is None and are_plain(labels, embeddings):
        return labels, embeddings
    require(labels is not None, "no labels", "one class id per example: fit(x, labels), or batches (x, labels)")
    labels, embeddings = usable(labels, embeddings)
    embeddings = ops.convert_to_tensor(embeddings)
    dtype = keras.backend.standardize_dtype(embeddings.dtype)
    # On PyTorch, Keras computes products and maxima of float64 in float32: all is in float32 there.
    if not keras.backend.is_float_dtype(dtype) or (dtype == "float64" and keras.backend.backend() == "torch"):
        embeddings = ops.cast(embeddings, "float32")
    require(
        len(embeddings.shape) == 2,
        f"embeddings of shape {tuple(embeddings.shape)}",
        "(batch, dim). Pool or flatten the model's output to one vector per example; for two towers pass "
        "pairing=two_towers",
    )
    labels = _unaveraged(labels)
    labels = _integers(labels) if match is None else ops.convert_to_tensor(labels)
    require(len(labels.shape) > 0, "labels of shape ()", "(batch,): one label per row of the embeddings")
    if len(labels.shape) == 2 and labels.shape[1] == 1:
        labels = ops.squeeze(labels, axis=1)
    require(
        match is not None or len(labels.shape) == 1,
        f"labels of shape {tuple(labels.shape)}",
        "(batch,) or (batch, 1): one class id per example. One-hot rows become ids by np.argmax(labels, axis=1). For "
        "several labels per example pass match=, a function that says which labels match",
    )
    rows = labels.shape[0], embeddings.shape[0]
    require(None in rows or rows[0] == rows[1], f"{rows[0]} labels and {rows[1]} embeddings", "one label per embedding")
    return labels, embeddings


def _require_pair_labels(labels):
    """Raise a ValueError for labels of pairs that are not 0 or 1 on both rows."""
    similar, repeated = labels[: len(labels) // 2 * 2].reshape(-1, 2).T
    valid = (similar == repeated) & ((similar == 0) | (similar == 1))
    if not valid.all():
        pair = int(np.argmin(valid))
        raise ValueError(
            f"Received the labels {similar[pair]} and {repeated[pair]} on the rows of pair {pair}, expected 1 on both "
            "rows of a similar pair and 0 on both rows of a dissimilar one. For class ids use consecutive_pairs."
        )


def _unaveraged(labels):
    """Labels cast back to integers while Keras traces the step of several replicas, from the mean of their labels."""
    if keras.backend.backend() != "tensorflow":
        return labels
    with keras.SymbolicScope() as scope:
        symbolic = scope.original_scope is not None
    return ops.cast(labels, "int64") if symbolic else labels


def _integers(labels):
    """Labels as an integer tensor that keeps different ids different."""
    if not hasattr(labels, "dtype"):
        labels = np.asarray(labels)
    dtype = getattr(labels.dtype, "name", str(labels.dtype)).removeprefix("torch.")
    if not dtype.startswith(("int", "uint")):
        advice = how_to_number("labels", dtype, labels.shape)
        raise ValueError(
            f"Received labels of dtype {dtype}, expected integer class ids (floats merge large ids). {advice}"
        )
    labels = ops.convert_to_tensor(labels)
    # PyTorch compares 8-bit labels with the number of classes as if it had 8 bits too.
    return ops.cast(labels, "int64") if keras.backend.backend() == "torch" else labels
