"""Upgrade of an index to a new model, without its examples."""

from typing import Any, TypeVar

import numpy as np

from tfdml._core.checks import require
from tfdml._core.checksums import require_same_model
from tfdml.search.index.base import Index
from tfdml.search.upgrades.adapters import Adapter

AnyIndex = TypeVar("AnyIndex", bound=Index)


def upgrade(index: AnyIndex, adapter: Adapter, *, other_model: bool = False) -> AnyIndex:
    """An index whose vectors are mapped to the space of a new model, without embedding its examples again.

    Example:

        >>> old = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, -0.6]])
        >>> new = old[:, ::-1] * [1.0, -1.0]  # the new model turns by a right angle
        >>> adapter = tfdml.search.LinearAdapter.learn(old, new, orthogonal=True)
        >>> index = tfdml.search.upgrade(tfdml.search.Exact(old, ids=[10, 11, 12, 13]), adapter)
        >>> index.search(new[2:3], k=1)[0].tolist()
        [[12]]

    Args:
        index: an index of embeddings of the old model: `Exact`, `Scann`, `Faiss` or `Lance`. It is not changed.
        adapter: a `LinearAdapter` or `MLPAdapter` from the old model to the new one, learned with the metric of the
            index.
        other_model: whether an index that states another model than the adapter's old one is taken.

    Returns:
        A new index of the same class, settings, ids, metadata and order, and with the fingerprint of the new model. It
        is built of all vectors, also of those that were added since the last build.
    """
    expected = f"one from dim {index.dim}, the dim of the index. Learn it on embeddings of the model of the index"
    require(adapter.old_dim == index.dim, f"an adapter from dim {adapter.old_dim}", expected)
    received = f"an adapter for metric={adapter.metric!r}"
    require(adapter.metric == index.metric, received, f"one for {index.metric!r}, as the index: pass it to learn")
    require_same_model("an index", index, "the adapter", adapter.old_model, other_model=other_model)
    return rebuilt(index, adapter(index.vectors), index.metadata, adapter.new_model)


def rebuilt(index: AnyIndex, vectors: np.ndarray, metadata: Any, model: str | None) -> AnyIndex:
    """An index of the same class, settings, ids and order, with other vectors `(n, dim)`, metadata and model."""
    settings: dict[str, Any] = {name: getattr(index, name) for name in index.settings if name not in Index.settings}
    options: dict[str, Any] = {"metric": index.metric, "max_bytes": index.max_bytes}
    return type(index)(vectors, index.ids, metadata=metadata, model=model, **options, **settings)
