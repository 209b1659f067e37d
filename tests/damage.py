"""One law of damage: a folder, one file of which was damaged, is consistent or is refused with an error that names it.

`damages` are the damages of every file: its bytes, each entry of a JSON file, each form of an array.
"""

import io
import json
import warnings

import numpy as np

from tfdml._core.checksums import SUMS, write_checksums

VALUES = [None, True, -1, 0, 3, 1.5, 10**30, -(2**63) - 1, float("nan"), float("inf"), "", "../x", "/etc/passwd", "."]
VALUES += ["dot", "cosine", "euclidean", "\x1b", [], [1], {}, {"a": 1}, {"": None}, [{}], [[]]]
DEEP = b"[" * 100_000
PLACES = 12  # of flipped bits in a file


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


def npy(array):
    """The content of a file that holds an array."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header(text):
    """The header of a `.npy` file."""
    return b"\x93NUMPY\x01\x00" + np.uint16(len(text) + 1).tobytes() + text.encode() + b"\n"


def header_of_shape(shape):
    return header(f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}")


NO_ARRAYS = [
    b"\x80\x04K\x01.",  # a pickle
    b"PK\x05\x06" + bytes(18),  # a zip file
    header("(" * 9000),
    header_of_shape(f"({'-' * 8000}8,)"),
    header_of_shape(f"({10**12},)"),  # 7 TiB
    header_of_shape(f"({10**25},)"),
    header_of_shape("(-1,)") + bytes(64),
    header_of_shape("(True,)") + bytes(64),
    header_of_shape("(0,)"),
    header("{'descr': '<U2', 'fortran_order': False, 'shape': (8,), }") + b"\xff" * 64,
]
FORMS = [
    lambda a: a[:0],
    lambda a: a[:-1],
    lambda a: np.concatenate([a, a[:1]]),
    lambda a: a[[0] * len(a)],
    lambda a: a[..., None],
    lambda a: a[..., :-1],
    lambda a: a.astype(np.int32) if a.dtype.kind != "U" else np.zeros(len(a), np.int64),
    lambda a: a.astype(np.float64) if a.dtype.kind != "U" else a.astype(bytes),
    lambda a: np.array([str(entry) for entry in a.ravel()]).reshape(a.shape),
    lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else np.zeros_like(a),
    lambda a: a * np.float32(1.001) if a.dtype.kind == "f" else a[::-1],
    lambda a: np.where(np.arange(a.size).reshape(a.shape) == a.size - 1, np.inf, a) if a.dtype.kind == "f" else a[:1],
]


def of_json(content):
    """Each entry with each value of the ladder, each text with the others of the file, and without an entry."""
    whole = json.loads(content)
    texts = [entry for path in paths(whole) if isinstance(entry := at(whole, path), str)]
    for path in paths(whole):
        for value in [*VALUES, *(sorted(texts) if at(whole, path) in texts else ()), ...]:
            yield json.dumps(changed(whole, path, value)).encode()
    yield from (b"{", b"[]", b'"a"', b"\xff", b'{"a":' * 100_000)


def at(value, path):
    return at(value[path[0]], path[1:]) if path else value


def of_bytes(content):
    """The file with a flipped bit at some places, cut, longer, empty, and nested deeply; None: removed."""
    for place in np.unique(np.linspace(0, len(content) - 1, PLACES).astype(int)).tolist() if content else ():
        yield content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]
    yield from (None, content[: len(content) // 2], content[:-1], content + b"\0", b"", DEEP)


def damages(path):
    """Other contents of a file; None: it is removed."""
    content = path.read_bytes()
    yield from of_bytes(content)
    if path.suffix == ".json":
        yield from of_json(content)
    if path.suffix == ".npy":
        yield from NO_ARRAYS
        yield from (npy(form(np.load(path))) for form in FORMS)
    if path.suffix == ".npz":
        yield from of_npz(path)
    if path.suffix == ".csv":
        yield from of_csv(content)


def of_csv(content):
    """A table with a line fewer or twice, without the end of its last line, and with other cells in its first lines."""
    lines = content.splitlines(keepends=True)
    yield from (b"".join(lines[:-1]), content + lines[-1], content[:-2], content[:-3], content + b"3\r\n")
    for number, line in enumerate(lines[:2]):
        for cell in range(line.count(b",") + 1):
            for other in (b"", b"a", b"-1", b"1e999", b'"', b"1.5", b"9" * 30):
                cells = line.rstrip(b"\r\n").split(b",")
                cells[cell] = other
                yield b"".join([*lines[:number], b",".join(cells) + b"\r\n", *lines[number + 1 :]])


def of_npz(path):
    """An archive without each of its arrays, with each in each form, with objects, and compressed."""
    arrays = dict(np.load(path))
    for name, array in arrays.items():
        yield npz({other: arrays[other] for other in arrays if other != name})
        forms = [form for form in FORMS if array.ndim and array.size] or [lambda a: a[None], lambda a: np.str_("x")]
        yield from (npz(arrays | {name: form(array)}) for form in forms)
        yield npz(arrays | {name: np.array([{}], object)})
    yield npz(arrays, np.savez_compressed)


def npz(arrays, save=np.savez):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def files_of(folder):
    """The files of a folder, by their relative names."""
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def put(path, content):
    """Write a file anew: what maps its earlier content keeps it."""
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)


def assert_consistent_or_refused(folder, read, assert_consistent=None, *, names=None, named=None):
    """The law of damage, for each damage of each file of a folder, or of those that are named.

    Args:
        folder: a folder that is whole, also in the end.
        read: function of the folder.
        assert_consistent: what holds of the result of a folder whose checksums fit; None: checksums stay as they were,
            and every change of the bytes is refused.
        names: of the files that are damaged.
        named: text that each error has, or a function of the name of the file; the path of the folder by default.

    Returns:
        the number of damages that were refused.
    """
    sums, refused = folder / SUMS, 0
    listed = sums.read_bytes() if sums.exists() else None
    for name, path in files_of(folder).items():
        if (names is not None and name not in names) or (assert_consistent and name == SUMS):
            continue
        whole = path.read_bytes()
        for content in list(damages(path) if assert_consistent else of_bytes(whole)):
            if content == whole:
                continue
            put(path, content)
            if assert_consistent and listed is not None:
                write_checksums(folder)
            refused += _is_refused(folder, read, assert_consistent, named(name) if callable(named) else named)
        put(path, whole)
        put(sums, listed)
    return refused


def _is_refused(folder, read, assert_consistent, named):
    message = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = read(folder)
    except (ValueError, OSError, UserWarning) as error:
        message = str(error)
    if message is None:
        assert assert_consistent is not None, "a damage was not found"
        assert_consistent(result)
        return False
    assert (named or str(folder)) in message
    return True
