"""The index inside an exported model, as a server answers from it."""

import json
from typing import Any

from tfdml.serving.index_records import described
from tfdml.serving.limits import RefusedError

SIGNATURE = "search"


class InnerIndex:
    """Neighbors that the signature `search` of an exported model finds: of files only, without filters.

    Args:
        search: what the export says of its search: numbers of vectors and of neighbors, dim and metric.

    Attributes:
        max_neighbors: number of neighbors that the signature finds.
        description: as that of a `Catalog`.
    """

    def __init__(self, search: dict[str, Any]):
        self.max_neighbors = search["k"]
        self.description = {
            "items": search["vectors"],
            "dim": search["dim"],
            "metric": search["metric"],
            "pictures": False,
            "filters": {},
        }

    def require_files(self, queries: list[Any], where: str) -> None:
        """Refuse a filter, and items by id or row: a graph has neither.

        Raises:
            RefusedError: one of them.
        """
        if where != "{}" or not all(isinstance(query, bytes) for query in queries):
            raise RefusedError(
                400, "Received a filter, an id or a row, expected files: the index is inside the model. Use --index."
            )

    def neighbors(self, outputs: dict[str, Any], k: int) -> list[dict[str, Any]]:
        """The k nearest of the outputs of an image, each with its `id`, `score`, `name` of its file, and `metadata`."""
        payload = outputs.get("payload", [b"{}"] * k)
        found = list(zip(outputs["ids"].tolist(), outputs["scores"].tolist(), payload, strict=False))[:k]
        return [{"id": id, "score": score, **described(json.loads(columns))} for id, score, columns in found]


def inner_index(model: Any) -> InnerIndex | None:
    """The index inside a model; None for a model without one."""
    search = getattr(model, "search", None)
    return InnerIndex(search) if search and SIGNATURE in model.signatures else None
