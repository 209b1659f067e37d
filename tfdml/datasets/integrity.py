"""Files that cannot be loaded, exact duplicates, and boxes outside their image."""

import collections
import hashlib
import os
import re
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.checks import require_whole
from tfdml._core.progress import show_progress
from tfdml._core.terminal import visible

_SHOWN = 20  # problems that are printed
_NO_LIMITS = 2**62, 2**62  # of bytes and of pixels; load has its own
_ROUNDING = 1.0  # pixels by which a border may exceed its image, as in lists that count pixels from 1


@dataclass(frozen=True, eq=False)
class Verification:
    """What is wrong with the examples of a labeled set; it prints as a list.

    Attributes:
        problems: tuple of `(row, name, reason)`: the number of the row, its path (or the row again, for sets without
            paths), and what is wrong.
        kept: `(kept,)` int64, the rows without a problem: `set.take(found.kept)`.
    """

    problems: tuple[tuple[int, str, str], ...]
    kept: np.ndarray

    def __str__(self) -> str:
        examples = len(self.kept) + len(self.problems)
        lines = [f"{examples:,} examples, of which {len(self.problems):,} have a problem"]
        lines += [visible(f"  row {row}  {name}  {reason}") for row, name, reason in self.problems[:_SHOWN]]
        more = len(self.problems) - _SHOWN
        return "\n".join(lines + [f"  and {more:,} more in problems"] * (more > 0))

    __repr__ = __str__


class _Found(NamedTuple):
    """What one row holds: a reason if it cannot be used; a checksum and a shape if it can be loaded."""

    reason: str = ""
    content: Any = None
    shape: Any = None


class _Record(NamedTuple):
    """A row before it is loaded: what `load` takes, a checksum, and height and width in pixels where they are known."""

    key: Any
    checksum: bytes
    sides: tuple[int, int] | None


def verify(part: Any, workers: int | None) -> Verification:
    """The `Verification` of a labeled set, see `LabeledSet.verify`."""
    found = []
    for each in _all_found(part, workers):
        found.append(each)
        show_progress("files verified", len(found), len(part))
    reasons = {row: each.reason for row, each in enumerate(found) if each.reason}
    reasons |= _other_shapes({row: each.shape for row, each in enumerate(found) if row not in reasons})
    reasons |= _duplicates(part, {row: each.content for row, each in enumerate(found) if row not in reasons})
    problems = tuple((row, _name(part, row), reason) for row, reason in sorted(reasons.items()))
    return Verification(problems, np.setdiff1d(np.arange(len(part)), list(reasons)))


def broken(part: Any, workers: int | None) -> tuple[tuple[int, str, str], ...]:
    """The rows that cannot be loaded, see `LabeledSet.broken`."""
    found = enumerate(_all_found(part, workers))
    return tuple((row, _name(part, row), each.reason) for row, each in found if each.content is None)


def _all_found(part, workers):
    """The `_Found` of every row, in order."""
    from concurrent.futures import ThreadPoolExecutor

    workers = os.cpu_count() or 1 if workers is None else workers
    require_whole("workers", workers, 1)
    examine, block = partial(_examined, part, _reader(part), _loader(part)), 64 * workers
    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(part), block):
            yield from pool.map(examine, range(start, min(start + block, len(part))))


def _examined(part, read, load, row):
    """The `_Found` of a row."""
    import tensorflow as tf

    try:
        record = read(row)
        example = load(record.key)
    except Exception as error:  # of the user's source, or of the user's load
        return _Found(_message(error))
    box = None if part.boxes is None else part.boxes[row]
    reason = "" if box is None else _box_problem(box, record.sides)
    shape = str(tf.nest.map_structure(lambda value: tuple(np.shape(value)), example))
    return _Found(reason, (record.checksum, None if box is None else box.tobytes()), shape)


def _message(error):
    """What an error says, without the places in the graph that TensorFlow adds."""
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    lines = re.sub(r"\s*\[\[\{\{node .*", "", text, flags=re.DOTALL).strip().splitlines()
    line = re.sub(r"^\{\{function_node .*?\}\} |^assertion failed: ", "", lines[-1].strip() if lines else "")
    return line.replace("] [", " ").strip("[]").removeprefix("Received ") or type(error).__name__


def _loader(part):
    """The `load` of a set as a function that threads may call, or the identity."""
    import tensorflow as tf

    if part.load is None:
        return lambda key: key
    load = tf.function(part.load, reduce_retracing=True)
    return lambda key: load(tf.nest.map_structure(tf.convert_to_tensor, key))  # A function is traced per Python value.


def _reader(part):
    """Function from a row to its `_Record`."""
    read = partial(_read_file if part.paths is not None else _read_array, part, threading.Lock())
    with_box = getattr(part.load, "boxes", False)

    def record(row):
        found = read(row)
        return found._replace(key=(found.key, part.boxes[row])) if with_box else found

    return record


def _read_file(part, lock, row):
    path = str(part.paths[row])
    if not os.path.getsize(path):
        raise ValueError("an empty file")
    with open(path, "rb") as file:
        checksum = hashlib.file_digest(file, "sha256").digest()
    return _Record(path, checksum, None if part.boxes is None else _sides(path))


def _sides(path):
    """Height and width of an upright image."""
    import tensorflow as tf

    from tfdml.datasets.images.decode import decoded

    return tuple(decoded(tf.io.read_file(path), *_NO_LIMITS)[1].shape[:2])


def _read_array(part, lock, row):
    """Row of an array or a source; few sources are thread-safe."""
    import tensorflow as tf

    with lock:
        record = (part.images if part.source is None else part.source)[row]
    checksum = hashlib.sha256()
    for value in map(np.asarray, tf.nest.flatten(record)):
        checksum.update(f"{value.dtype.str} {value.shape} ".encode())
        checksum.update(str(value).encode() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes())
    sides = np.shape(record)[:2] if part.source is None else None
    return _Record(record, checksum.digest(), sides)


def _box_problem(box, sides):
    """What is wrong with a box in an image of `sides`, height and width; empty if nothing is."""
    left, upper, right, lower = box.tolist()
    text = f"the box ({left:g}, {upper:g}, {right:g}, {lower:g})"
    if not (left < right and upper < lower):
        return f"{text}, which is empty"
    height, width = (np.inf, np.inf) if sides is None else sides
    if min(left, upper) < -_ROUNDING or right > width + _ROUNDING or lower > height + _ROUNDING:
        return f"{text}, which exceeds the image of {width} x {height} pixels"
    return ""


def _other_shapes(shapes):
    """The rows whose examples do not have the most frequent shape, each with the reason; `shapes` by row."""
    usual = collections.Counter(shapes.values()).most_common(1)
    reason = "loads to shape {}, most examples to {}"
    return {row: reason.format(shape, usual[0][0]) for row, shape in shapes.items() if shape != usual[0][0]}


def _duplicates(part, contents):
    """The rows whose content occurs before, or under another label, each with the reason; `contents` by row."""
    rows_of = collections.defaultdict(list)
    for row, content in contents.items():
        rows_of[content].append(row)
    repeated = [rows for rows in rows_of.values() if len(rows) > 1]
    return {row: reason for rows in repeated for row, reason in _duplicate_reasons(part, rows)}


def _duplicate_reasons(part, rows):
    """Rows of one content to leave out: all but the first, or all if their labels differ."""
    for row in rows:
        others = [other for other in rows if part.labels[other] != part.labels[row]]
        other = others[0] if others else rows[0]
        label = part.class_names[part.labels[other]]
        if row != other:
            same = f"the same content as row {other}, {_name(part, other)}"
            yield row, same + (f", with the other label {label!r}" if others else "")


def _name(part, row):
    return str(row if part.paths is None else part.paths[row])
