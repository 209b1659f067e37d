"""`tfdml search`."""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfdml import embedding
from tfdml._core.checks import require
from tfdml._core.checksums import fingerprint, require_same_model
from tfdml.cli import inputs
from tfdml.cli.options.search import MAX_NEIGHBORS
from tfdml.cli.printing import EXIT_OK, print_result


def run(options: argparse.Namespace) -> int:
    """Find the neighbors of images in an index."""
    model, preprocessing = inputs.open_model(options.model, options.preprocessing)
    index, metadata_of = inputs.open_index(options.index, columns=bool(options.where))
    with inputs.as_usage_error(f"INDEX={options.index!r}"):
        queries_model = fingerprint(model, preprocessing)
        require_same_model("queries", queries_model, "the index", index.fingerprint, other_model=options.other_model)
    with inputs.as_usage_error(f"--where {options.where}"):
        where = _mask(options.where, index) if options.where else None
    images = inputs.read_images(options.images, preprocessing)
    k = min(MAX_NEIGHBORS, len(index) if where is None else int(where.sum())) if options.k is None else options.k
    ids, scores = index.search(embedding.embed(model, images, batch_size=options.batch_size), k, where=where)
    records = [
        {"image": path, "neighbors": _neighbors(neighbor_ids, neighbor_scores, metadata_of)}
        for path, neighbor_ids, neighbor_scores in zip(options.images, ids.tolist(), scores.tolist(), strict=True)
    ]
    print_result(options, records, [line for record in records for line in _lines(record)])
    return EXIT_OK


def _neighbors(ids: list[Any], scores: list[float], metadata_of: Callable[[Any], dict[str, Any]]) -> list[Any]:
    return [{"id": id, "score": score, "metadata": metadata_of(id)} for id, score in zip(ids, scores, strict=True)]


def _lines(record: dict[str, Any]) -> Iterator[str]:
    """The image, and a line for each neighbor: score, id, label, path."""
    yield record["image"]
    for neighbor in record["neighbors"]:
        metadata = neighbor["metadata"]
        columns = [str(metadata[name]) for name in ("label", "path") if name in metadata]
        yield "  ".join([f"{neighbor['score']:9.5f}", f"{neighbor['id']:>8}", *columns])


def _mask(conditions, index):
    """The vectors whose columns have one of the values of `COLUMN=VALUE`, `(n,)` bool."""
    from pyarrow import array, compute

    columns = index.metadata.column_names if index.metadata is not None else []
    texts: dict[str, list[str]] = {}
    for column, _, value in (condition.partition("=") for condition in conditions):
        require(column in columns, f"column {column!r}", f"one of {', '.join(columns) or 'an index with metadata'}")
        texts.setdefault(column, []).append(value)
    values = {column: array(listed).cast(index.metadata[column].type) for column, listed in texts.items()}
    masks = [index.mask(compute.field(column).isin(listed)) for column, listed in values.items()]
    mask = np.logical_and.reduce(masks)
    require(bool(mask.any()), "values that no item has", "values of the columns")
    return mask
