"""Every entry of a JSON file, and the file with one of them changed: for tests of damaged files."""

import json


def paths(value, path=()):
    """The paths of all entries of nested dicts and lists."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from paths(entry, (*path, key))


def changed(content, path, value):
    """A copy with another value at a path; without the entry for `...`."""
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy
