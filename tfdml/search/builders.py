"""Index builders: the values of a `search=` option."""

from collections.abc import Callable
from typing import Any, Literal

from tfdml._core.checks import require
from tfdml.search.approximate.faiss import Faiss
from tfdml.search.approximate.scann import Scann
from tfdml.search.exact import Exact
from tfdml.typing import Index

IndexBuilder = Callable[..., Index] | Literal["exact", "scann", "faiss"] | None

_NAMED: dict[Any, Any] = {None: Exact, "exact": Exact, "scann": Scann, "faiss": Faiss}


def index_builder(search: IndexBuilder) -> Callable[..., Index]:
    """The function `(vectors, metric=...)` that builds an index, from such a function, "exact", None, "scann" or
    "faiss".
    """
    build: Any = _NAMED.get(search) if search is None or isinstance(search, str) else search
    require(
        callable(build), f"search={search!r}", "'exact', 'scann', 'faiss', None, or a class such as tfdml.search.Scann"
    )
    return build
