"""Simulation: pair probabilities of any sampler, estimated from its batches."""

from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.backends import ops
from tfdml._core.checks import as_unmasked, require_whole
from tfdml.importance.probabilities import PairProbabilities


def simulated_probabilities(sampler: Any, labels: npt.ArrayLike, *, batches: int = 10_000) -> PairProbabilities:
    """Q of any sampler, estimated from its batches.

    `sampler.pairing` says which rows of a batch are pairs. Q of two classes is the mean share of their pairs over
    batches, divided by their number of pairs of examples. The design must treat all examples of a class alike.

    Example: the estimate is within three standard errors of the exact value.

        >>> labels = np.repeat([0, 1], 3)
        >>> sampler = tfdml.samplers.GroupSampler(classes_per_batch=2, examples_per_class=2, seed=0)
        >>> estimate = tfdml.importance.simulated_probabilities(sampler, labels, batches=100)
        >>> exact = sampler.pair_probabilities(labels)
        >>> bool((abs(estimate.within - exact.within) <= 3 * estimate.within_error + 1e-9).all())
        True

    Args:
        sampler: a `tfdml.samplers.Sampler`; its seed determines the batches.
        labels: `(examples,)` integer class ids, without classes that the sampler leaves out.
        batches: number of batches to draw. The standard error falls with its square root.

    Returns:
        `PairProbabilities` with standard errors that assume independent batches: 16 bytes for each pair of classes.

    Raises:
        ValueError: some pair was never drawn, in too few batches or by design; no weight corrects the latter.
    """
    require_whole("batches", batches, 2)
    labels = as_unmasked(labels, "labels")
    ids, class_index, counts = np.unique(np.reshape(labels, -1), return_inverse=True, return_counts=True)
    first, second, share = _pairs_of_a_batch(sampler)
    total, squares = np.zeros(len(ids) ** 2), np.zeros(len(ids) ** 2)
    for rows in islice(sampler.index_batches(labels), batches):
        is_pair = rows[first] != rows[second]
        class_pair = class_index[rows[first]] * len(ids) + class_index[rows[second]]
        seen, seen_index = np.unique(class_pair, return_inverse=True)
        mass = np.bincount(seen_index, weights=share * is_pair)
        total[seen] += mass
        squares[seen] += mass**2
    mean = (total / batches).reshape(len(ids), len(ids))
    error = np.sqrt(np.maximum(squares / batches - (total / batches) ** 2, 0.0) / (batches - 1)).reshape(mean.shape)
    pairs = np.multiply.outer(counts, counts) - np.diag(counts)
    _require_all_seen(ids, pairs, mean, batches)
    q, error = mean / np.maximum(pairs, 1), error / np.maximum(pairs, 1)
    between = q * (1 - np.eye(len(ids)))
    return PairProbabilities(ids, counts, np.diag(q).copy(), between, np.eye(len(ids)), np.diag(error).copy(), error)


def _pairs_of_a_batch(sampler):
    """The two rows of each pair of a batch, and its share in a loss that is a mean over pairs, then over anchors."""
    rows = np.arange(sampler.batch_size)
    pairs = sampler.pairing(rows, np.zeros((len(rows), 1), dtype="float32"))
    anchors, references, weights = (
        ops.convert_to_numpy(x) for x in (pairs.anchor_labels, pairs.reference_labels, pairs.negative)
    )
    share = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1) / len(anchors)
    first, second = np.broadcast_arrays(anchors[:, None], references)
    return first[weights > 0], second[weights > 0], share[weights > 0]


def _require_all_seen(ids, pairs, mean, batches):
    missing = (pairs > 0) & (mean == 0)
    if missing.any():
        a, b = np.argwhere(missing)[0]
        raise ValueError(
            f"Received {batches} batches without a pair of class {ids[a]} with class {ids[b]} ({missing.sum()} of "
            f"{(pairs > 0).sum()} ordered pairs of classes never occurred). Draw more batches, and leave out classes "
            "that the sampler leaves out; if it can never draw such pairs, no weight can make up for them."
        )
