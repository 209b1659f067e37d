"""All similar pairs of embeddings in shards: candidates around common centers, verified exactly."""

import math
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require, require_fraction, require_seed, require_whole
from tfdml.distributed.cluster import Resources, results
from tfdml.distributed.embedding import EmbeddedShards, read_shards
from tfdml.search.blocks import slices
from tfdml.search.duplicates.binomial import binomial_lower_bound
from tfdml.search.duplicates.cells import CENTER_SAMPLE, center_ranks, nearest_centers, spherical_centers
from tfdml.search.duplicates.pairs import Join, PairRecall, SimilarPairs, similar_pairs, sorted_pairs
from tfdml.search.scores import l2_normalize
from tfdml.typing import FilePath

_BLOCK = 2**22  # products of a block
_PER_REGION = 500_000  # vectors
_COLUMNS = ("rows", "vectors", "cell", "probes")  # of the vectors of a region


class Plan(NamedTuple):
    """A join: least cosine similarity, centers `(c, dim)`, the region of each, `(c,)`, and centers near a vector."""

    similarity: float
    centers: np.ndarray
    region: np.ndarray
    num_probes: int
    max_pairs: int


def join(
    shards: EmbeddedShards | FilePath,
    similarity: float,
    *,
    recall: float = 0.99,
    sample: int = 4096,
    max_pairs: int = 20_000_000,
    seed: int = 0,
    resources: Resources | None = None,
) -> SimilarPairs:
    """All pairs of at least this cosine similarity among embeddings in shards, on a cluster of Ray.

    The method is the one of `tfdml.search.similar_pairs` with `approximate=True`: each vector is compared with those
    around its nearest of sqrt(n) centers, and each similarity is computed exactly, so no pair is wrong and some are
    missed. The number of centers follows from a sample that is joined exactly; the recall is measured on a second one.
    Time grows with n^1.5 dim. Tasks write the vectors by region to a temporary folder beside the shards.

    Example: the second and the last of 200 vectors are equal.

        >>> model = keras.Sequential([keras.Input((8,)), keras.layers.UnitNormalization()])
        >>> x = np.random.default_rng(0).normal(size=(200, 8)).astype("float32")
        >>> x[199] = x[1]
        >>> shards = tfdml.distributed.embed(model, x, "shards", batch_size=100, shard_size=100, actors=1)
        >>> pairs = tfdml.distributed.join(shards, 0.999)
        >>> pairs.rows
        array([[  1, 199]])

    Args:
        shards: the result of `embed`, or its folder.
        similarity, recall, sample, max_pairs, seed: as in `tfdml.search.similar_pairs`.
        resources: what a task takes of a node, as in `embed`.

    Returns:
        `SimilarPairs`: row numbers are positions among the embeddings of all shards.

    Raises:
        ValueError: more than `max_pairs` pairs.
    """
    require(-1 < similarity <= 1, f"similarity={similarity}", "a cosine similarity above -1 and up to 1")
    require_fraction(recall=recall)
    for name, value in (("sample", sample), ("max_pairs", max_pairs)):
        require_whole(name, value, 1)
    require_seed(seed)
    shards = shards if isinstance(shards, EmbeddedShards) else read_shards(shards)
    run = partial(results, resources=resources)
    rng = np.random.default_rng(seed)
    centers = _centers(shards, rng, run)
    sampled = rng.permutation(len(shards))[: 2 * sample]
    pairs, ranks = _joined_sample(shards, sampled, centers, similarity, run)
    number = min(len(centers), max(1, len(shards) // _PER_REGION))
    plan = Plan(
        similarity=similarity,
        centers=centers,
        region=nearest_centers(centers, spherical_centers(centers, number, rng), 1)[:, 0],
        num_probes=_num_probes(pairs, ranks, sampled[:sample], recall),
        max_pairs=max_pairs,
    )
    folder = Path(tempfile.mkdtemp(prefix=".join-", dir=shards.folder)).absolute()
    try:
        rows, values = _joined_regions(shards, plan, folder, number, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return SimilarPairs(rows, values, _measured_recall(rows, pairs, sampled[sample:], len(shards)))


def _centers(shards, rng, run):
    """The square root of n centers, of vectors from all shards."""
    number = math.isqrt(len(shards))
    chosen = np.sort(rng.permutation(len(shards))[: CENTER_SAMPLE * number])
    return spherical_centers(l2_normalize(_vectors(shards, chosen, run)), number, rng)


def _vectors(shards, rows, run):
    """The vectors at ascending positions, `(m, dim)`."""
    rows_of_shard = np.split(rows, np.searchsorted(rows, shards.starts[1:-1]))
    tasks = [
        (number, shard_rows - shards.starts[number])
        for number, shard_rows in enumerate(rows_of_shard)
        if len(shard_rows)
    ]
    return np.concatenate(list(run(_vectors_of_shard, tasks, label="shards sampled", shared=shards)))


def _vectors_of_shard(shards, number, rows):
    return shards.read(number).embeddings[rows]


def _joined_sample(shards, sampled, centers, similarity, run):
    order = np.argsort(sampled)
    vectors = _vectors(shards, sampled[order], run)
    shared = shards, sampled[order], vectors, centers, similarity
    tasks = [(number,) for number in range(len(shards.paths))]
    joined = list(run(_joined_with_shard, tasks, label="samples joined", shared=shared))
    pairs, ranks = zip(*joined, strict=True)
    return np.concatenate(pairs), np.concatenate(ranks)


def _joined_with_shard(shared, number):
    """The pairs of sampled rows with the rows of a shard, and their ranks."""
    shards, sampled, sampled_vectors, centers, similarity = shared
    vectors = shards.read(number).embeddings
    pairs = similar_pairs(sampled_vectors, similarity, gallery=vectors).rows
    queries, columns = pairs[:, 0], pairs[:, 1]
    is_other = sampled[queries] != shards.starts[number] + columns
    queries, columns = queries[is_other], columns[is_other]
    a, b = l2_normalize(sampled_vectors)[queries], l2_normalize(vectors[columns])
    cell_a, cell_b = (nearest_centers(x, centers, 1)[:, 0] if len(x) else np.empty(0, np.int64) for x in (a, b))
    ranks = np.minimum(center_ranks(a, centers, cell_b), center_ranks(b, centers, cell_a))
    return np.stack([sampled[queries], shards.starts[number] + columns], axis=1), ranks


def _num_probes(pairs, ranks, rows, recall):
    """The number of centers that find all pairs of a share `recall` of the rows in pairs."""
    chosen = np.isin(pairs[:, 0], rows)
    with_pairs, position = np.unique(pairs[chosen, 0], return_inverse=True)
    largest = np.zeros(len(with_pairs), np.int64)
    np.maximum.at(largest, position, ranks[chosen])
    return 1 + int(np.quantile(largest, recall, method="higher")) if len(largest) else 1


def _joined_regions(shards, plan, folder, number, run):
    tasks = [(number,) for number in range(len(shards.paths))]
    for _ in run(_divide, tasks, label="shards divided", shared=(shards, plan, folder)):
        pass
    blocks, count = [], 0
    tasks = [(region,) for region in range(number)]
    for block in run(_joined_region, tasks, label="regions joined", shared=(plan, folder)):
        blocks.append(block)
        count += len(block[1])
        received = f"embeddings of which more than max_pairs={plan.max_pairs:,} pairs are similar"
        require(count <= plan.max_pairs, received, "fewer. Raise the similarity or max_pairs")
    return sorted_pairs(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))


def _divide(shared, number):
    """Write the vectors of a shard to the regions of their nearest centers."""
    shards, plan, folder = shared
    vectors = shards.read(number).embeddings
    directions = l2_normalize(vectors)
    cell = nearest_centers(directions, plan.centers, 1)[:, 0]
    probes = nearest_centers(directions, plan.centers, plan.num_probes)
    regions = plan.region[probes]
    for region in np.unique(regions).tolist():
        is_near = (regions == region).any(axis=1)
        np.savez(
            folder / f"{region:06}-{number:06}.npz",
            rows=shards.starts[number] + np.flatnonzero(is_near),
            vectors=vectors[is_near],
            cell=cell[is_near],
            probes=probes[is_near],
        )


def _joined_region(shared, region):
    """The pairs of the vectors near a region with the vectors of its centers: `(m, 2)` rows and `(m,)` similarities."""
    plan, folder = shared
    files = sorted(folder.glob(f"{region:06}-*.npz"))
    if not files:
        return np.empty((0, 2), np.int64), np.empty(0, np.float32)
    pieces = [np.load(file) for file in files]
    rows, vectors, cell, probes = (np.concatenate([piece[name] for piece in pieces]) for name in _COLUMNS)
    tasks = []
    for center in np.flatnonzero(plan.region == region).tolist():
        members, queries = np.flatnonzero(cell == center), np.flatnonzero((probes == center).any(axis=1))
        step = max(1, _BLOCK // max(1, len(members)))
        tasks += [(queries[block], members) for block in slices(len(queries), step) if len(members)]
    pairs, similarity = Join(vectors, None, np.float32(plan.similarity), plan.max_pairs).joined(tasks)
    return np.sort(rows[pairs], axis=1), similarity


def _measured_recall(rows, pairs, sampled, count):
    """The `PairRecall` of rows of pairs, against all pairs of sampled rows."""
    expected = pairs[np.isin(pairs[:, 0], sampled)]
    codes = np.minimum(*expected.T) * count + np.maximum(*expected.T)
    is_missed = ~np.isin(codes, rows[:, 0] * count + rows[:, 1])
    in_pairs, incomplete = len(np.unique(expected[:, 0])), len(np.unique(expected[is_missed, 0]))
    complete = in_pairs - incomplete
    return PairRecall(in_pairs, complete, binomial_lower_bound(complete, in_pairs))
