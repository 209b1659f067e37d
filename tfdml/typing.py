"""The few forms of arguments that many functions of tfdml take."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

FilePath: TypeAlias = str | os.PathLike[str]
Labels: TypeAlias = npt.ArrayLike


@runtime_checkable
class Data(Protocol):
    """A labeled set, such as those of `tfdml.datasets`: labels, and examples that are read in batches.

    Attributes:
        labels: `(examples,)` integer class ids.
    """

    labels: np.ndarray

    def __len__(self) -> int: ...

    def batches(self, batch_size: int = 256) -> Iterable[tuple[Any, Any]]:
        """All examples once, in order, as batches of `(examples, labels)`."""
        ...


class Index(Protocol):
    """An index of vectors, such as `tfdml.search.Exact` and `tfdml.search.Scann`."""

    def __len__(self) -> int: ...

    def search(self, queries: npt.ArrayLike, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids and scores of the `k` nearest items of each query, `(queries, k)` each."""
        ...


class Embedder(Protocol):
    """A network that embeds a batch, such as a Keras model or a `tfdml.export.LoadedModel`."""

    def predict_on_batch(self, examples: Any) -> np.ndarray:
        """`(batch, dim)` embeddings of a batch of examples."""
        ...


__all__: Sequence[str] = ["Data", "Embedder", "FilePath", "Index", "Labels"]
