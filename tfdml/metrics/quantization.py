"""Embeddings in fewer bytes, and retrieval measured on them: fewer dimensions, 8-bit integers, single bits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_whole
from tfdml.metrics.retrieval.retrieval import retrieval
from tfdml.typing import Labels

_LARGEST = 127  # The largest int8 of a symmetric range.
PRECISIONS = ("float32", "int8", "binary")


def int8_codes(embeddings: npt.ArrayLike, scales: npt.ArrayLike | None = None) -> np.ndarray:
    """Embeddings as 8-bit integers, symmetric around 0: round(x / scale), clipped to [-127, 127].

    Without `scales`, each row has its own scale, the largest absolute value of the row divided by 127. Cosine
    similarity does not depend on it, so the codes alone are enough: `tfdml.metrics.retrieval(codes, labels)`. With
    `scales`, one per dimension, the embeddings are `codes * scales`.

    Example:

        >>> codes = tfdml.metrics.int8_codes([[0.4, -1.0, 0.0], [1.0, 4.0, 0.0]])
        >>> codes.tolist()  # 0.4 * 127 is 50.8, and 127 / 4 is 31.75
        [[51, -127, 0], [32, 127, 0]]

    Args:
        embeddings: `(n, dim)` floats.
        scales: None, or `(dim,)` numbers above 0, such as `np.abs(x).max(axis=0) / 127` of training embeddings x. It
            clips values beyond their range.

    Returns:
        `(n, dim)` int8. A row of zeros stays zero.
    """
    x = as_vectors(embeddings, "embeddings")
    if scales is None:
        largest = np.abs(x).max(axis=1, keepdims=True)
        scale = np.where(largest > 0, largest / _LARGEST, 1).astype(np.float32)
    else:
        scale = np.asarray(scales, np.float32)
        is_valid = scale.shape == x.shape[1:] and bool((scale > 0).all())
        require(is_valid, f"scales of shape {scale.shape}", f"{x.shape[1:]}, numbers above 0, one per dimension")
    return np.clip(np.rint(x / scale), -_LARGEST, _LARGEST).astype(np.int8)


def quantized_retrieval(
    embeddings: npt.ArrayLike,
    labels: Labels,
    *,
    dims: Sequence[int] | None = None,
    precisions: Sequence[str] = PRECISIONS,
    gallery: npt.ArrayLike | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Retrieval metrics of embeddings cut to their first dimensions and quantized, one row for each combination.

    float32 and int8 (`int8_codes`, a scale per vector) are compared by cosine similarity, bits (whether a value is
    above 0) by Hamming distance. Short codes often tie; a tie counts as the mean over all orders of the tied items.

    Example:

        >>> x = [[1.0, 0.2, 0.9], [0.2, 1.0, 0.9], [0.9, 0.3, -0.9], [0.3, 0.9, -0.9]]  # the third number is the class
        >>> precisions = ("float32", "int8")
        >>> for row in tfdml.metrics.quantized_retrieval(x, [0, 0, 1, 1], dims=(2, 3), precisions=precisions, k=1):
        ...     print(row["dim"], row["precision"], row["bytes"], row["recall@1"])
        2 float32 8 0.0
        2 int8 2 0.0
        3 float32 12 1.0
        3 int8 3 1.0

    Args:
        embeddings, labels: as in `retrieval`.
        dims: numbers of dimensions; None for all of them.
        precisions: some of "float32", "int8" and "binary".
        gallery: `(items, dim)` floats to search in, quantized as the queries are, with `gallery_labels=`.
        **options: as in `retrieval`, but for `metric` and `ties`.

    Returns:
        A list of dicts: "dim", "precision", "bytes" of an embedding, and the metrics of `retrieval`. Bytes count
        the codes alone: the cosine of int8 codes needs no scale.

    Source: truncation, Kusupati et al., Matryoshka Representation Learning, NeurIPS 2022.
    """
    queries = as_vectors(embeddings, "embeddings")
    items = None if gallery is None else as_vectors(gallery, "gallery")
    unknown = [precision for precision in precisions if precision not in PRECISIONS]
    require(not unknown, f"precisions={tuple(precisions)}", f"some of {', '.join(PRECISIONS)}")
    dims = [queries.shape[1]] if dims is None else list(dims)
    for dim in dims:
        require_whole("dims", dim, 1, queries.shape[1])
    return [
        {"dim": dim, "precision": precision, **_measured(queries, items, labels, dim, precision, options)}
        for dim in dims
        for precision in precisions
    ]


def _measured(queries, items, labels, dim, precision, options):
    codes, items = (None if x is None else _codes(x[:, :dim], precision) for x in (queries, items))
    size = -(-dim // 8) if precision == "binary" else dim * codes.dtype.itemsize
    metric = "dot" if precision == "binary" else "cosine"
    return {"bytes": size, **retrieval(codes, labels, gallery=items, metric=metric, ties="expected", **options)}


def _codes(x, precision):
    """Numbers in the place of the codes; bits are -1 and 1, whose dot product falls with the Hamming distance."""
    if precision == "binary":
        return np.where(x > 0, np.float32(1), np.float32(-1))
    return int8_codes(x) if precision == "int8" else x
