"""Approximate nearest neighbors with ScaNN."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require
from tfdml._core.optional import scann_module
from tfdml.search.approximate.base import Approximate, chosen_leaves, chosen_method, optional_whole, rescored
from tfdml.search.blocks import MAX_BYTES
from tfdml.search.index.items import Items
from tfdml.search.index.segments import joined
from tfdml.search.scores import require_range
from tfdml.typing import Metadata

_OVERSAMPLING = 2  # With a filter: requested neighbors, over the number that is expected to hold k allowed ones.


class Scann(Approximate):
    """Approximate nearest neighbors with ScaNN, behind the interface of `Exact`.

    The number of vectors determines the method, following ScaNN's rules of thumb:

    * below 20,000 vectors `"exact"`: it compares every vector in float32;
    * below 100,000 `"quantized"`: it scores all from 4-bit codes of two dimensions each (asymmetric hashing), and the
      best `rescore` again in float32;
    * from 100,000 `"partitioned"`: the same within the `leaves_to_search` nearest of `leaves` k-means cells.

    Euclidean scores equal the scores of `Exact`, to the last bit; others are ScaNN's float32 products.

    A query always gets `k` neighbors: if the searched cells hold fewer, it is compared with every vector. Until
    `rebuild`, the search compares later vectors exactly, and always the vectors that a narrow filter lets pass.

    Example:

        >>> vectors = np.stack([np.cos(np.arange(8)), np.sin(np.arange(8))], axis=1)  # at the angles 0 to 7
        >>> index = tfdml.search.Scann(vectors)
        >>> index.search(vectors[:1], k=3)[0].tolist()  # 6 and 7 are 2 pi - 0.28 and 2 pi + 0.72
        [[0, 6, 7]]

    Args:
        vectors, ids, metric, metadata, max_bytes, model: as for `Exact`.
        method: "auto", "exact", "quantized" or "partitioned".
        leaves: number of cells; the square root of n by default.
        leaves_to_search: number of cells searched per query, a quarter of them by default.
        rescore: number of candidates scored in float32 at the end; 10 k + 200 by default (k + 10 with "exact"), never
            fewer than k.
        soar: None, or a weight (1.5 in the source): each vector is then also in a second cell, and a larger weight
            makes its residual there more orthogonal to the first one; for "partitioned" and not for "euclidean". Fewer
            cells reach the same recall, and the codes take twice the memory.

    Source: Guo et al., Accelerating Large-Scale Inference with Anisotropic Vector Quantization, ICML 2020. Sun et
        al., SOAR: Improved Indexing for Approximate Nearest Neighbor Search, NeurIPS 2023.
    """

    kind: ClassVar[str] = "scann"
    methods: ClassVar[tuple[str, ...]] = ("exact", "quantized", "partitioned")

    def __init__(
        self,
        vectors: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        *,
        metric: str = "cosine",
        metadata: Metadata | None = None,
        max_bytes: int = MAX_BYTES,
        model: Any = None,
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
        soar: float | None = None,
    ):
        super().__init__(vectors, ids, metric=metric, metadata=metadata, max_bytes=max_bytes, model=model)
        self.rebuild(method=method, leaves=leaves, leaves_to_search=leaves_to_search, rescore=rescore, soar=soar)

    def rebuild(
        self,
        *,
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
        soar: float | None = None,
    ) -> None:
        """Build ScaNN's searcher again, of all vectors, also of later ones.

        Args:
            method, leaves, leaves_to_search, rescore, soar: as in the constructor, all but `soar` by default for the
                current size.
        """
        segment = joined(self._items.segments)
        gallery = segment.gallery
        method = chosen_method(self.methods, method, _automatic(len(gallery)))
        leaves, leaves_to_search = chosen_leaves(method, leaves, leaves_to_search, len(gallery))
        rescore = optional_whole(rescore, "rescore")
        _require_soar(soar, method, self.metric)
        if method != "exact":
            require_range(gallery.largest, gallery.largest, gallery.augmented.shape[1])
        searcher = _built(gallery, method, leaves, leaves_to_search, soar)
        self.method, self.leaves, self.leaves_to_search, self.rescore = method, leaves, leaves_to_search, rescore
        self._items = Items((replace(segment, searcher=searcher),))

    def _effort(self, segment, allowed, k):
        num_rescored = self._chosen_rescore(k)
        if allowed is None:
            return k, num_rescored
        count, num_allowed = len(segment.ids), int(allowed.sum())
        num_requested = min(count, _OVERSAMPLING * k * count // num_allowed + 10)
        return num_requested, num_rescored * count // num_allowed

    def _approximate_neighbors(self, segment, allowed, queries, num_requested, num_rescored):
        num_rescored = min(len(segment.ids), max(num_requested, num_rescored))
        scores = segment.gallery.scores(queries)
        centered = segment.gallery.shift(scores.queries)
        search = segment.searcher.search_batched_parallel
        rows, values = search(centered, num_requested, num_rescored, self.leaves_to_search)
        rows, values = rows.astype(np.int64), np.array(values)
        return rescored(scores, rows, values) if self.metric == "euclidean" else (rows, values)

    def _load_searcher(self, folder):
        # ScaNN would unpickle this file. save() never writes it.
        if (folder / "scann_docids.pkl").exists():
            raise ValueError("The index holds scann_docids.pkl, which save() never writes. Do not load it.")
        load = _pybind().load_searcher
        try:
            return load(str(folder))
        except Exception as error:  # Each damage fails in its own way.
            raise ValueError(f"{str(folder)!r} is damaged: {error}. Build the index again, and save it.") from error


def _pybind():
    return scann_module("scann_ops_pybind", feature="tfdml.search.Scann", other="tfdml.search.Exact")


def _automatic(count):
    return "exact" if count < 20_000 else "quantized" if count < 100_000 else "partitioned"


def _require_soar(soar, method, metric):
    if soar is not None:
        received = f"soar={soar!r} for method={method!r} and metric={metric!r}"
        is_possible = soar > 0 and method == "partitioned" and metric != "euclidean"
        require(is_possible, received, "a positive number, method='partitioned', and metric='cosine' or 'dot'")


def _built(gallery, method, leaves, leaves_to_search, soar):
    vectors = np.ascontiguousarray(gallery.centered)
    distance = "squared_l2" if gallery.metric == "euclidean" else "dot_product"
    builder = _pybind().builder(vectors, min(10, len(vectors)), distance)
    if method == "partitioned":
        builder = builder.tree(num_leaves=leaves, num_leaves_to_search=leaves_to_search, soar_lambda=soar)
    if method == "exact":
        builder = builder.score_brute_force()
    else:
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2)
    # Brute force is rescored too: ScaNN computes Euclidean distances from products, which are inaccurate near 0.
    return builder.reorder(min(300, len(vectors))).build()
