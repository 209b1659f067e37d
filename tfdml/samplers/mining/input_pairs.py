"""Batches of a model of pairs, made of the batches of any sampler."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.checks import require, require_fraction, require_seed, require_whole
from tfdml._core.optional import tf
from tfdml.pairs import (
    all_pairs,
    consecutive_pairs,
    even_against_odd,
    labeled_pairs,
    triplet_rows,
    two_towers,
    two_views,
)


class _Candidates(NamedTuple):
    """Pairs of rows of a batch, `(candidates,)` each: the rows of both inputs, and whether they match."""

    a: Any
    b: Any
    match: Any


def input_pairs(
    batches: "tf.data.Dataset",
    *,
    pairing: Callable[..., Any] = all_pairs,
    pairs_per_batch: int | None = None,
    positive_fraction: float = 0.5,
    seed: int = 0,
    start: int = 0,
) -> "tf.data.Dataset":
    """Batches `((a, b), y)` for `tfdml.models.PairModel`, made of batches of examples and labels.

    The candidates are the pairs that `pairing` compares, each once. `pairs_per_batch` of them are drawn at random
    without replacement: `positive_fraction` of them match, or as many as the batch has, and other pairs fill up. The
    order of the two examples is random, except with `two_towers`.

    Example:

        >>> labels = np.repeat(np.arange(4), 3)
        >>> sampler = tfdml.samplers.GroupSampler(classes_per_batch=2, examples_per_class=2, seed=0)
        >>> data = tfdml.samplers.input_pairs(sampler.batches(np.arange(12), labels), pairs_per_batch=4)
        >>> (a, b), y = next(iter(data))  # rows 0 to 2 are of class 0, rows 3 to 5 of class 1, and so on
        >>> a.numpy().tolist(), b.numpy().tolist(), y.numpy().tolist()
        ([5, 5, 7, 7], [6, 3, 6, 3], [-1, 1, 1, -1])

    Args:
        batches: batches `(examples, labels)` of a fixed number of rows, of any sampler; examples may be a structure.
        pairing: the rows to compare: `all_pairs`, `consecutive_pairs`, `even_against_odd`, `labeled_pairs`,
            `triplet_rows` or `two_views` of `tfdml.pairs`, as `sampler.pairing` says; or `two_towers` for batches
            `((queries, gallery), labels)` of `TwoSetSampler`.
        pairs_per_batch: number of pairs, at most the number of candidates; None for all candidates, in their order.
        positive_fraction: share of pairs that match, in (0, 1].
        seed: any int64. The pairs of a batch depend on it and on the number of the batch only.
        start: number of the first batch, as in `sampler.batches(start=)`, to resume.

    Returns:
        A `tf.data.Dataset` of `((a, b), y)`: examples with `pairs` rows, and int32 `(pairs,)`, 1 for a match, else -1.
    """
    names = ", ".join(function.__name__ for function in _PAIRINGS)
    require(pairing in _PAIRINGS, f"pairing={pairing!r}", f"one of tfdml.pairs: {names}")
    require_fraction(positive_fraction=positive_fraction)
    require_seed(seed)
    require_whole("start", start, 0)
    count = _num_candidates(batches, pairing)
    if pairs_per_batch is not None:
        require_whole("pairs_per_batch", pairs_per_batch, 1, count)

    @tf.autograph.experimental.do_not_convert
    def paired(step, batch):
        examples, labels = batch
        pairs = _candidates(pairing, _rows(batch), labels)
        if pairs_per_batch is not None:
            random = _random(seed, step, count)
            pairs = _drawn(pairs, pairs_per_batch, round(positive_fraction * pairs_per_batch), random[0])
            pairs = pairs if pairing is two_towers else _swapped(pairs, random[1, :pairs_per_batch])
        return _inputs(examples, pairs, pairing), tf.where(pairs.match, 1, -1)

    return batches.enumerate(start).map(paired, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _rows(batch):
    return tf.nest.flatten(batch)[0].shape[0]


def _num_candidates(batches, pairing):
    spec = getattr(batches, "element_spec", None)
    rows = _rows(spec) if isinstance(spec, tuple) and len(spec) == 2 else None
    expected = "a tf.data.Dataset of batches (examples, labels) of a fixed number of rows, such as sampler.batches(...)"
    received = f"batches of type {type(batches).__name__} and form {spec}"
    require(rows is not None, received, expected)
    divisor, pairs_of, _ = _PAIRINGS[pairing]
    require(rows % divisor == 0, f"batches of {rows} rows for {pairing.__name__}", f"a multiple of {divisor} rows")
    return pairs_of(rows)[0].shape[0]


def _candidates(pairing, rows, labels):
    _, pairs_of, match = _PAIRINGS[pairing]
    a, b = pairs_of(rows)
    return _Candidates(a, b, match(labels, a, b))


def _combinations(rows):
    a, b = np.triu_indices(rows, 1)
    return tf.constant(a), tf.constant(b)


def _neighbors(rows):
    a = tf.range(0, rows, 2, tf.int64)
    return a, a + 1


def _even_and_odd(rows):
    a, b = _product(rows // 2)
    return 2 * a, 2 * b + 1


def _of_triplets(rows):
    anchors = tf.range(0, rows, 3, tf.int64)
    return tf.repeat(anchors, 2), tf.reshape(tf.stack([anchors + 1, anchors + 2], axis=1), [-1])


def _product(rows):
    numbers = tf.range(rows, dtype=tf.int64)
    return tf.repeat(numbers, rows), tf.tile(numbers, [rows])


def _is_same_class(labels, a, b):
    return tf.gather(labels, a) == tf.gather(labels, b)


def _is_same_class_of_towers(labels, a, b):
    query_labels, gallery_labels = tf.unstack(labels, axis=1) if labels.shape.rank == 2 else (labels, labels)
    return tf.gather(query_labels, a) == tf.gather(gallery_labels, b)


_PAIRINGS: dict[Callable[..., Any], tuple[int, Callable[..., Any], Callable[..., Any]]] = {
    all_pairs: (1, _combinations, _is_same_class),
    consecutive_pairs: (2, _neighbors, _is_same_class),
    even_against_odd: (2, _even_and_odd, _is_same_class),
    labeled_pairs: (2, _neighbors, lambda labels, a, b: tf.gather(labels, a) > 0),
    triplet_rows: (3, _of_triplets, lambda labels, a, b: b == a + 1),
    two_towers: (1, _product, _is_same_class_of_towers),
    two_views: (2, _combinations, lambda labels, a, b: a // 2 == b // 2),
}
"""Of what the rows are a multiple, the row numbers a and b of the candidates, and whether each matches."""
_DRAWS = 0x70_6169_7273  # "pairs": separates these draws from those of the sampler at the same steps.


def _random(seed, step, count):
    """Two random numbers of each candidate, `(2, count)` int64, as a pure function of (seed, step)."""
    key = [tf.constant(seed ^ _DRAWS, tf.int64), step]
    return tf.random.stateless_uniform((2, count), key, minval=None, maxval=None, dtype=tf.int64, alg="philox")


def _drawn(pairs, count, positives, random):
    """`count` of the candidates: `positives` that match, others that do not, and the rest where one kind is short."""
    order = tf.argsort(random)  # a random order of the candidates
    match = tf.gather(pairs.match, order)
    rank = tf.where(match, tf.cumsum(tf.cast(match, tf.int32)), tf.cumsum(tf.cast(~match, tf.int32)))
    surplus = rank > tf.where(match, positives, count - positives)
    chosen = tf.gather(order, tf.argsort(tf.cast(surplus, tf.int32), stable=True)[:count])
    return _Candidates(*(tf.gather(values, chosen) for values in pairs))


def _swapped(pairs, random):
    """Half of the pairs, at random, with a and b exchanged."""
    swap = random < 0
    return _Candidates(tf.where(swap, pairs.b, pairs.a), tf.where(swap, pairs.a, pairs.b), pairs.match)


def _inputs(examples, pairs, pairing):
    first, second = examples if pairing is two_towers else (examples, examples)
    return (
        tf.nest.map_structure(lambda x: tf.gather(x, pairs.a), first),
        tf.nest.map_structure(lambda x: tf.gather(x, pairs.b), second),
    )
