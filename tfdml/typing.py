"""The forms of arguments that many functions of tfdml take."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, Union, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas
    import pyarrow
    import pyarrow.compute

__all__ = ["Data", "Embedder", "Index", "VectorIndex"]

FilePath: TypeAlias = str | os.PathLike[str]
Labels: TypeAlias = npt.ArrayLike
Metadata: TypeAlias = Union["pyarrow.Table", "pandas.DataFrame", Mapping[str, npt.ArrayLike]]
"""Columns with one entry per vector of an index."""
Filter: TypeAlias = Union[npt.ArrayLike, "pyarrow.compute.Expression", Mapping[str, Any]]
"""The vectors that may be returned: one boolean per vector, an expression of columns of metadata, or a dict of columns
and their values."""


@runtime_checkable
class Data(Protocol):
    """A labeled set, such as the sets of `tfdml.datasets`: labels, and examples that are read in batches."""

    @property
    def labels(self) -> np.ndarray:
        """`(examples,)` integers, indices into `class_names`."""
        ...

    @property
    def class_names(self) -> Sequence[str]:
        """Names of the classes."""
        ...

    @property
    def images(self) -> Any:
        """Examples in memory, or None."""
        ...

    @property
    def load(self) -> Any:
        """Function that makes an example of a file, an image or a record; None for examples as they are."""
        ...

    @property
    def protocol(self) -> str | None:
        """Id of the benchmark protocol, or None."""
        ...

    def __len__(self) -> int: ...

    def take(self, rows: Any) -> Self:
        """The set of some rows."""
        ...

    def batches(self, batch_size: int = 256) -> Any:
        """All examples once, in order: an iterable of batches `(examples, labels)`."""
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


class VectorIndex(Protocol):
    """An index whose vectors can be exported, such as `tfdml.search.Exact` and `tfdml.search.Scann`."""

    @property
    def vectors(self) -> npt.ArrayLike:
        """`(n, dim)` floats. The optional attribute `metadata` is a `pyarrow.Table` of n rows."""
        ...

    @property
    def ids(self) -> npt.ArrayLike:
        """`(n,)` integers or text."""
        ...

    @property
    def metric(self) -> str:
        """One of "cosine", "dot" and "euclidean"."""
        ...


Examples: TypeAlias = Data | np.ndarray | Sequence[Any]
"""A labeled set, or an array or another sequence of examples."""
