"""The tasks of HPatches, from the embeddings of its patches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recipes.checks import require

TASKS = ("verification", "matching", "retrieval")
POOLS = (100, 500, 1_000, 5_000, 10_000, 15_000, 20_000)  # patches from which five positives are retrieved
_JITTERS = {"easy": "e", "hard": "h", "tough": "t"}
_IMAGES = 5  # besides the reference
_POSITIVES_PER_NEGATIVE = 0.2  # of the average precision of verification
_CHUNK = 65_536  # pairs


def hpatches_scores(
    embeddings: npt.ArrayLike, patches: Any, *, tasks: Sequence[str] = TASKS, pools: Sequence[int] = POOLS
) -> dict[str, float]:
    """Verification, matching and retrieval of HPatches, by euclidean distance.

    * matching: each patch of the reference image has its nearest patch of another image of its sequence; average
      precision over these matches by rising distance, with as many positives as patches, the mean over five images and
      all sequences.
    * verification_auc, verification_ap: a pair of the lists is accepted below a distance. The area under the curve of
      true over false accept rates has all pairs, the average precision has all negatives and a fifth as many
      positives, the first ones. Each is the mean over negatives from one sequence and from two.
    * retrieval@k: a query of the reference image has five positives, the same place in the other images, and k - 5
      distractors, the first ones of the list that are from other sequences; the mean average precision over queries.

    Each is measured with easy, hard and tough errors of detection; the key without them is the mean of the three.
    Average precision is the area under the curve of precision over recall by the trapezoidal rule, which begins at
    precision 1.

    See also: `tfdml.metrics.verification` and `tfdml.metrics.retrieval` for other sets.

    Example:

        >>> class OneSequence:  # the fields of the test set of `patches.hpatches` that matching reads
        ...     sequence_names, groups = ["v_wall"], np.zeros(32, int)
        ...     file_names = ["ref", *(kind + str(image) for kind in "eht" for image in range(1, 6))]
        ...     files = np.repeat(np.arange(16), 2)  # two places, each in every file
        ...     def __len__(self):
        ...         return 32
        >>> x = np.tile([[1.0, 0.0], [0.0, 1.0]], (16, 1))
        >>> x[22:] = x[22:, ::-1]  # in the files t1 to t5, each place looks like the other
        >>> numbers = patches.hpatches_scores(x, OneSequence(), tasks=["matching"])
        >>> {name: round(value, 4) for name, value in numbers.items()}
        {'matching@easy': 1.0, 'matching@hard': 1.0, 'matching@tough': 0.0, 'matching': 0.6667}

    Args:
        embeddings: `(n, dim)` floats of all patches of the set, in its order, normalized or not.
        patches: the test set of `patches.hpatches`.
        tasks: some of "verification", "matching" and "retrieval". Matching needs no lists.
        pools: numbers k of patches of a retrieval, above 5. A pool above the number of patches has all of them.

    Returns:
        dict of floats: `matching@easy`, `matching@hard`, `matching@tough`, `matching`, and so on.

    Raises:
        ValueError: another number of embeddings, an unknown task, a pool of 5 or fewer, or lists that are missing.

    Source: Balntas, Lenc, Vedaldi, Mikolajczyk, HPatches: A Benchmark and Evaluation of Handcrafted and Learned Local
    Descriptors, CVPR 2017, with the details of its code.
    """
    x = np.asarray(embeddings, np.float32)
    is_finite = x.ndim == 2 and bool(np.isfinite(x).all())
    require(is_finite, f"embeddings of shape {x.shape}", "finite numbers (n, dim)")
    require(len(x) == len(patches), f"{len(x):,} embeddings of {len(patches):,} patches", "one per patch")
    unknown = [task for task in tasks if task not in TASKS]
    require(not unknown, f"tasks={tasks!r}", f"some of {', '.join(map(repr, TASKS))}")
    require(min(pools, default=6) > _IMAGES, f"pools={pools!r}", f"numbers above {_IMAGES}, the positives of a query")
    measures = {"verification": _verification, "matching": _matching, "retrieval": _retrieval}
    values: dict[str, float] = {}
    for task in tasks:
        by_jitter = {jitter: measures[task](x, patches, jitter, sorted(pools)) for jitter in _JITTERS}
        values |= {f"{key}@{jitter}": value for jitter, row in by_jitter.items() for key, value in row.items()}
        values |= {key: float(np.mean([row[key] for row in by_jitter.values()])) for key in by_jitter["easy"]}
    return values


def _matching(x, patches, jitter, pools):
    precisions = []
    for sequence in range(len(patches.sequence_names)):
        reference = x[_rows(patches, sequence, "ref")]
        for image in range(1, _IMAGES + 1):
            d = _distances(reference, x[_rows(patches, sequence, f"{_JITTERS[jitter]}{image}")])
            nearest = d.argmin(axis=1)
            is_match = nearest == np.arange(len(d))
            precisions.append(_average_precision(d.min(axis=1), is_match, len(d)))
    return {"matching": float(np.mean(precisions))}


def _verification(x, patches, jitter, pools):
    values = [_verification_values(x, patches.verification_pairs(jitter, kind)) for kind in ("intra", "inter")]
    return {f"verification_{key}": float(np.mean([row[key] for row in values])) for key in ("auc", "ap")}


def _verification_values(x, pairs):
    d, num_positives = _pair_distances(x, pairs.first, pairs.second), int(pairs.same.sum())
    positive, negative = d[pairs.same], np.sort(d[~pairs.same])
    farther = len(negative) - (np.searchsorted(negative, positive) + np.searchsorted(negative, positive, "right")) / 2
    few = int(_POSITIVES_PER_NEGATIVE * num_positives)
    labels = np.repeat([False, True], [len(negative), few])
    ap = _average_precision(np.concatenate([negative, positive[:few]]), labels, few)
    return {"auc": float(farther.mean() / len(negative)), "ap": ap}


def _retrieval(x, patches, jitter, pools):
    queries, distractors = patches.retrieval_rows()
    precisions = []
    for sequence in np.unique(patches.groups[queries]):
        of_sequence = queries[patches.groups[queries] == sequence]
        others = distractors[patches.groups[distractors] != sequence]
        positives = _positive_distances(x, patches, of_sequence, jitter)
        precisions.append(_precisions_of_pools(positives, _distances(x[of_sequence], x[others]), pools))
    means = np.concatenate(precisions).mean(axis=0)
    return {f"retrieval@{pool}": float(mean) for pool, mean in zip(pools, means, strict=True)}


def _positive_distances(x, patches, queries, jitter):
    """Distances of queries to their five positives, rising: `(queries, 5)`."""
    names = np.array(patches.sequence_names)[patches.groups[queries]]
    files = [np.full(len(queries), f"{_JITTERS[jitter]}{image}") for image in range(1, _IMAGES + 1)]
    rows = [patches.rows(names, file, patches.numbers[queries]) for file in files]
    return np.sort(np.stack([_pair_distances(x, queries, row) for row in rows], axis=1), axis=1)


def _precisions_of_pools(positives, distractors, pools):
    """Average precision of each query in each pool, `(queries, pools)`.

    The positive j, from 1, with rank r raises the recall by 1/5, from precision (j - 1) / (r - 1) to j / r.
    """
    ends = np.minimum(np.array(pools) - _IMAGES, distractors.shape[1])
    starts = np.append(0, ends[:-1])
    total = np.zeros((len(positives), len(pools)))
    for j in range(1, _IMAGES + 1):
        nearer = distractors < positives[:, j - 1 : j]
        counts = np.stack([nearer[:, a:b].sum(axis=1) for a, b in zip(starts, ends, strict=True)], axis=1)
        rank = j + counts.cumsum(axis=1)
        before = np.where(rank == 1, 1.0, (j - 1) / np.maximum(rank - 1, 1))
        total += (before + j / rank) / 2
    return total / _IMAGES


def _average_precision(distances, labels, num_positives):
    """Area under the curve of precision over recall, by rising distance; a positive without one is never retrieved."""
    hits = labels[np.argsort(distances, kind="stable")]
    true_positives = np.append(0, np.cumsum(hits))
    precision = np.append(1.0, true_positives[1:] / np.arange(1, len(hits) + 1))
    return float(np.trapezoid(precision, true_positives / num_positives))


def _rows(patches, sequence, file):
    """The rows of a file of a sequence, by place."""
    return np.flatnonzero((patches.groups == sequence) & (patches.files == patches.file_names.index(file)))


def _distances(a, b):
    """Euclidean distances, `(a, b)` float32."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.sqrt(np.maximum(squares, 0))


def _pair_distances(x, first, second):
    """Euclidean distances of pairs of rows, a chunk at a time: `(pairs,)`."""
    starts = range(0, len(first), _CHUNK)
    chunks = [x[first[i : i + _CHUNK]] - x[second[i : i + _CHUNK]] for i in starts]
    return np.sqrt(np.concatenate([(difference**2).sum(axis=1) for difference in chunks]))
