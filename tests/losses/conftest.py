"""The order of the tests of losses."""

from tests.losses.rows import ROWS

PLACES = {id(row): place for place, row in enumerate(ROWS.values())}


def pytest_collection_modifyitems(items):
    """All tests of a row one after another in their file: one process compiles the row, not every process."""
    files = {path: place for place, path in enumerate(dict.fromkeys(item.path for item in items))}
    items.sort(key=lambda item: (files[item.path], place_of(item)))


def place_of(item):
    """The place in the table of the row that a test runs on; -1 where it runs on none."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return PLACES.get(id(parameters.get("row")), -1)
