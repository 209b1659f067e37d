"""Approximate nearest neighbors with faiss."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require, require_one_of
from tfdml._core.optional import optional_import
from tfdml.search.approximate.base import Approximate, chosen_leaves, chosen_method, optional_whole, rescored
from tfdml.search.blocks import MAX_BYTES
from tfdml.search.index.files import checked
from tfdml.search.index.items import Items
from tfdml.search.index.segments import joined
from tfdml.search.scores import require_range
from tfdml.typing import Metadata

_CODES = ("float32", "int8", "product", "binary")
_LINKS = 32  # of a vector in the graph
_CODEBOOK = 256  # vectors that a product quantizer needs at least: one for each of its codes
_FILE = "index.faiss"


class Faiss(Approximate):
    """Approximate nearest neighbors with faiss, behind the interface of `Exact`; it needs no TensorFlow.

    faiss proposes `rescore` candidates from compressed vectors, and the index scores these in float32: the scores equal
    the scores of `Exact`, to the last bit. The number of vectors determines the method:

    * below 20,000 vectors `"exact"`: it scores every vector from its code;
    * from 20,000 `"partitioned"`: the vectors in the `leaves_to_search` nearest of `leaves` k-means cells;
    * `"graph"` (HNSW), by name alone. It is the fastest to search and the slowest to build.

    The float32 vectors stay in the index for the last scores. A loaded index maps them from disk: memory holds the
    codes and the candidates.

    A query always gets `k` neighbors: if the searched cells hold fewer, it is compared with every vector. The search
    applies a filter inside. Until `rebuild`, the search compares later vectors exactly.

    Example:

        >>> vectors = np.stack([np.cos(np.arange(8)), np.sin(np.arange(8))], axis=1)  # at the angles 0 to 7
        >>> index = tfdml.search.Faiss(vectors)
        >>> index.search(vectors[:1], k=3)[0].tolist()  # 6 and 7 are 2 pi - 0.28 and 2 pi + 0.72
        [[0, 6, 7]]

    Args:
        vectors, ids, metric, metadata, max_bytes, model: as for `Exact`.
        method: "auto", "exact", "partitioned" or "graph".
        codes: what faiss keeps of a vector: "float32", 4 dim bytes; "int8", dim bytes; "product", dim / 4 bytes or
            fewer, from at least 256 vectors; "binary" (RaBitQ), dim / 8 bytes and a few. A graph has "float32" or
            "int8".
        leaves: number of cells; the square root of n by default.
        leaves_to_search: number of cells searched per query, a quarter of them by default.
        rescore: number of candidates scored in float32; 10 k + 200 by default (k + 10 with "exact" and "float32" or
            "int8"), never fewer than k.

    Source: Douze et al., The Faiss library, 2024. Malkov and Yashunin, HNSW, 2018. Jégou et al., Product Quantization
        for Nearest Neighbor Search, 2011. Gao and Long, RaBitQ, 2024.
    """

    kind: ClassVar[str] = "faiss"
    methods: ClassVar[tuple[str, ...]] = ("exact", "partitioned", "graph")
    settings: ClassVar[tuple[str, ...]] = (*Approximate.settings, "codes")

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
        codes: str = "int8",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ):
        super().__init__(vectors, ids, metric=metric, metadata=metadata, max_bytes=max_bytes, model=model)
        self.rebuild(method=method, codes=codes, leaves=leaves, leaves_to_search=leaves_to_search, rescore=rescore)

    def rebuild(
        self,
        *,
        method: str = "auto",
        codes: str = "int8",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ) -> None:
        """Build the index of faiss again, of all vectors, also of later ones.

        Args:
            method, codes, leaves, leaves_to_search, rescore: as in the constructor, by default for the current size.
        """
        segment = joined(self._items.segments)
        count = len(segment.gallery)
        method = chosen_method(self.methods, method, "exact" if count < 20_000 else "partitioned")
        _require_codes(codes, method, count)
        leaves, leaves_to_search = chosen_leaves(method, leaves, leaves_to_search, count)
        rescore = optional_whole(rescore, "rescore")
        require_range(segment.gallery.largest, segment.gallery.largest, self.dim)
        searcher = FaissSearcher(_built(segment.gallery, _factory(method, codes, leaves, self.dim)))
        self.method, self.codes, self.rescore = method, codes, rescore
        self.leaves, self.leaves_to_search = leaves, leaves_to_search
        self._items = Items((replace(segment, searcher=searcher),))

    def _restore(self, folder, manifest):
        self.codes = checked(folder, manifest, "codes", lambda codes: codes in _CODES)
        super()._restore(folder, manifest)

    def _effort(self, segment, allowed, k):
        count = len(segment.ids) if allowed is None else int(allowed.sum())
        num_candidates = min(count, max(k, self._chosen_rescore(k)))
        return num_candidates, num_candidates

    def _chosen_rescore(self, k):
        return self.rescore or (k + 10 if self.method == "exact" and self.codes in _CODES[:2] else 10 * k + 200)

    def _approximate_neighbors(self, segment, allowed, queries, num_requested, num_rescored):
        index, scores = segment.searcher.index, segment.gallery.scores(queries)
        centered = np.ascontiguousarray(segment.gallery.shift(scores.queries), np.float32)
        parameters = _parameters(index, allowed, self.leaves_to_search, num_requested)
        values, rows = index.search(centered, num_requested, params=parameters)
        is_missing = rows < 0
        rows[is_missing] = 0
        return rescored(scores, rows, np.where(is_missing, np.nan, values).astype(np.float32))

    def _load_searcher(self, folder):
        faiss = _faiss()
        try:
            index = faiss.read_index(str(folder / _FILE))
            require(index.d == self.dim, f"vectors of dim {index.d}", f"{self.dim} as in the index")
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{str(folder)!r} is damaged: {error}. Build the index again, and save it.") from error
        return FaissSearcher(index)


class FaissSearcher:
    """A trained index of faiss as the searcher of a segment, with its vectors in files of its own."""

    component = "faiss"

    def __init__(self, index: Any) -> None:
        self.index = index

    def size(self) -> int:
        """Number of vectors."""
        return self.index.ntotal

    def serialize(self, folder: str, relative_path: bool = True) -> None:
        """Write the index to a folder, as searchers of ScaNN do."""
        _faiss().write_index(self.index, str(Path(folder) / _FILE))


def _faiss():
    return optional_import("faiss", feature="tfdml.search.Faiss", extra="faiss")


def _factory(method, codes, leaves, dim):
    encoded = {"float32": "Flat", "int8": "SQ8", "product": f"PQ{_subvectors(dim)}", "binary": "RaBitQ"}[codes]
    if method == "graph":
        return f"HNSW{_LINKS},{encoded}"
    cells = leaves or (1 if codes == "product" else 0)  # faiss filters product codes in cells alone
    return f"IVF{cells},{encoded}" if cells else encoded


def _subvectors(dim):
    """The number of codes of one byte of a product quantizer: the largest divisor of dim up to dim / 4, at least 1."""
    return max(number for number in range(1, max(1, dim // 4) + 1) if dim % number == 0)


def _built(gallery, factory):
    faiss = _faiss()
    metric = faiss.METRIC_L2 if gallery.metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    vectors = np.ascontiguousarray(gallery.centered, np.float32)
    index = faiss.index_factory(vectors.shape[1], factory, metric)
    if hasattr(index, "do_polysemous_training"):
        index.do_polysemous_training = False  # takes minutes, for a search that is not used
    index.train(vectors)
    index.add(vectors)
    return index


def _parameters(index, allowed, leaves_to_search, num_candidates):
    """The search parameters of an index of faiss, with the rows that may be returned."""
    faiss = _faiss()
    selector = {} if allowed is None else {"sel": faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))}
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=leaves_to_search or 1, **selector)
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=num_candidates, **selector)
    return faiss.SearchParameters(**selector)


def _require_codes(codes, method, count):
    require_one_of(_CODES, codes=codes)
    expected = "'float32' or 'int8', or method='partitioned'"
    require(method != "graph" or codes in _CODES[:2], f"codes={codes!r} for method='graph'", expected)
    received = f"{count} vectors for codes='product'"
    require(codes != "product" or count >= _CODEBOOK, received, f"at least {_CODEBOOK}. Pass codes='int8'")
