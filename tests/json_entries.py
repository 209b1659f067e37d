"""For tests of damaged files: entries of a JSON file, a file with another entry or bit, and the error of a reader."""

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


def refusal(read):
    """The message of the ValueError of a function; empty where it returns."""
    try:
        read()
    except ValueError as error:
        return str(error)
    return ""


def flip(path, bit):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
