"""The order of the tests of losses."""


def pytest_collection_modifyitems(items):
    """All tests of a row one after another in their file: one process compiles the row, not every process."""
    from tests.losses.rows import ROWS

    order = {id(row): number for number, row in enumerate(ROWS.values())}
    files = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    items.sort(key=lambda item: (files[item.path], order.get(id(row_of(item)), -1)))


def row_of(item):
    """The row of the table that a test runs on, or None."""
    return item.callspec.params.get("row") if hasattr(item, "callspec") else None
