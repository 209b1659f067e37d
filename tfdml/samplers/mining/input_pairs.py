"""Batches of a model of pairs, made of the batches of any sampler."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from tfdml._core.checks import INT64, require, require_fraction, require_seed, require_whole
from tfdml._core.optional import has_tensorflow, tf
from tfdml._core.philox import array_functions, bits_of_seed
from tfdml.pairs import (
    all_pairs,
    consecutive_pairs,
    even_against_odd,
    labeled_pairs,
    triplet_rows,
    two_towers,
    two_views,
)
from tfdml.samplers.streams.batch_source import zipped


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
    a, b = _candidates(batches, pairing)
    count = len(a)
    if pairs_per_batch is not None:
        require_whole("pairs_per_batch", pairs_per_batch, 1, count)

    def paired(batch, step):
        examples, labels = batch
        pairs = _Candidates(a, b, _PAIRINGS[pairing][2](labels, a, b))
        if pairs_per_batch is not None:
            bits = bits_of_seed((seed ^ _DRAWS, step), 2 * count)
            pairs = _drawn(pairs, pairs_per_batch, round(positive_fraction * pairs_per_batch), bits[:count])
            pairs = pairs if pairing is two_towers else _swapped(pairs, bits[count : count + pairs_per_batch])
        return _inputs(examples, pairs, pairing), 2 * array_functions().asarray(pairs.match, np.int32) - 1

    if not has_tensorflow():
        return zipped(paired, batches, range(start, INT64.max))
    numbered = tf.data.Dataset.zip(batches, tf.data.Dataset.counter(start))
    paired = tf.autograph.experimental.do_not_convert(paired)
    return numbered.map(paired, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _candidates(batches, pairing):
    """The rows of the pairs that a pairing compares."""
    batch = getattr(batches, "element_spec", None) if has_tensorflow() else batches[0]
    rows = keras.tree.flatten(batch)[0].shape[0] if isinstance(batch, tuple) and len(batch) == 2 else None
    expected = "a tf.data.Dataset of batches (examples, labels) of a fixed number of rows, such as sampler.batches(...)"
    require(rows is not None, f"batches of type {type(batches).__name__} and form {batch}", expected)
    divisor, pairs_of, _ = _PAIRINGS[pairing]
    require(rows % divisor == 0, f"batches of {rows} rows for {pairing.__name__}", f"a multiple of {divisor} rows")
    return pairs_of(rows)


def _combinations(rows):
    return np.triu_indices(rows, 1)


def _neighbors(rows):
    return np.arange(0, rows, 2), np.arange(1, rows, 2)


def _even_and_odd(rows):
    a, b = _product(rows // 2)
    return 2 * a, 2 * b + 1


def _of_triplets(rows):
    a, b = np.arange(rows).reshape(-1, 3)[:, [0, 0]], np.arange(rows).reshape(-1, 3)[:, 1:]
    return a.ravel(), b.ravel()


def _product(rows):
    return np.divmod(np.arange(rows * rows), rows)


def _rows_of(values, rows):
    return tf.gather(values, rows) if has_tensorflow() else values[rows]


def _is_same_class(labels, a, b):
    return _rows_of(labels, a) == _rows_of(labels, b)


def _is_same_class_of_towers(labels, a, b):
    queries, gallery = (labels[:, 0], labels[:, 1]) if len(labels.shape) == 2 else (labels, labels)
    return _rows_of(queries, a) == _rows_of(gallery, b)


_PAIRINGS: dict[Callable[..., Any], tuple[int, Callable[..., Any], Callable[..., Any]]] = {
    all_pairs: (1, _combinations, _is_same_class),
    consecutive_pairs: (2, _neighbors, _is_same_class),
    even_against_odd: (2, _even_and_odd, _is_same_class),
    labeled_pairs: (2, _neighbors, lambda labels, a, b: _rows_of(labels, a) > 0),
    triplet_rows: (3, _of_triplets, lambda labels, a, b: b == a + 1),
    two_towers: (1, _product, _is_same_class_of_towers),
    two_views: (2, _combinations, lambda labels, a, b: a // 2 == b // 2),
}
"""Of what the rows are a multiple, the row numbers a and b of the candidates, and whether each matches."""
_DRAWS = 0x70_6169_7273  # "pairs": separates these draws from those of the sampler at the same steps.


def _drawn(pairs, count, positives, random):
    """`count` of the candidates: `positives` that match, others that do not, and the rest where one kind is short."""
    np_ = array_functions()
    order = np_.argsort(random)  # a random order of the candidates
    match = _rows_of(pairs.match, order)
    rank = np_.where(match, np_.cumsum(match, dtype=np.int64), np_.cumsum(~match, dtype=np.int64))
    surplus = np_.asarray(rank > np_.where(match, positives, count - positives), np.int32)
    chosen = _rows_of(order, np_.argsort(surplus, kind="stable")[:count])
    return _Candidates(*(_rows_of(values, chosen) for values in pairs))


def _swapped(pairs, random):
    """Half of the pairs, at random, with a and b exchanged."""
    np_, swap = array_functions(), random < 0
    return _Candidates(np_.where(swap, pairs.b, pairs.a), np_.where(swap, pairs.a, pairs.b), pairs.match)


def _inputs(examples, pairs, pairing):
    inputs = examples if pairing is two_towers else (examples, examples)
    rows = zip(inputs, (pairs.a, pairs.b), strict=True)
    return tuple(keras.tree.map_structure(lambda x, rows=rows: _rows_of(x, rows), one) for one, rows in rows)
