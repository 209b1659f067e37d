"""The values of the `search=` option of `tfdml.export.saved_model`."""

from typing import Any

from tfdml._core.checks import require
from tfdml.export.graph_search.exact import ExactSearch
from tfdml.export.graph_search.partitioned import PartitionedSearch
from tfdml.export.graph_search.scann import ScannSearch

Search = ExactSearch | PartitionedSearch | ScannSearch

_NAMED: dict[Any, Any] = {
    None: ExactSearch,
    "exact": ExactSearch,
    "partitioned": PartitionedSearch,
    "scann": ScannSearch,
}


def as_search(search: Search | str | None) -> Search:
    """A search by its name "exact", "partitioned" or "scann", `ExactSearch()` for None, or the search itself."""
    is_name = search is None or (isinstance(search, str) and search in _NAMED)
    settings: Any = _NAMED[search]() if is_name else search
    names = "'exact', 'partitioned', 'scann', an ExactSearch, PartitionedSearch, ScannSearch or None"
    require(isinstance(settings, Search), f"search={search!r}", names)
    return settings
