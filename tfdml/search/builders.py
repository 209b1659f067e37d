"""Index builders: the values of an `index=` option."""

from collections.abc import Callable
from typing import Any, Literal

from tfdml._core.checks import require
from tfdml.search.approximate.faiss import Faiss
from tfdml.search.approximate.lance import Lance
from tfdml.search.approximate.scann import Scann
from tfdml.search.exact import Exact
from tfdml.typing import Index

IndexBuilder = Callable[..., Index] | Literal["exact", "scann", "faiss", "lance"] | None

_NAMED: dict[Any, Any] = {None: Exact, "exact": Exact, "scann": Scann, "faiss": Faiss, "lance": Lance}


def index_builder(index: IndexBuilder) -> Callable[..., Index]:
    """The function `(vectors, metric=...)` that builds an index, from such a function, "exact", None, "scann",
    "faiss" or "lance".
    """
    build: Any = _NAMED.get(index) if index is None or isinstance(index, str) else index
    expected = "'exact', 'scann', 'faiss', 'lance', None, or a class such as tfdml.search.Scann"
    require(callable(build), f"index={index!r}", expected)
    return build
