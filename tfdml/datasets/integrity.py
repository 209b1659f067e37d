"""Files that cannot be loaded, exact duplicates, and boxes outside their image."""

import collections
import hashlib
import os
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from tfdml._core.checks import LEAVE_OUT, counted, require_whole, unreadable
from tfdml._core.optional import has_tensorflow, tf
from tfdml._core.terminal import show_progress, visible
from tfdml.datasets.images.fit import ROUNDING, SHARES, are_shares
from tfdml.datasets.images.preprocessing import form
from tfdml.datasets.images.reasons import reason_of

_SHOWN = 20  # problems that are printed
_READERS = 16  # files of which the first and last bytes are read at the same time
_SUSPECTS = 256  # files that are loaded for their first and last bytes
_NO_LIMITS = 2**62, 2**62  # of bytes and of pixels; load has its own


@dataclass(frozen=True, eq=False)
class FileCheck:
    """Problems found in a labeled set; it prints as a list.

    Attributes:
        problems: tuple of `(row, name, reason)`; the name is the path, or the row again for sets without paths.
        usable_rows: `(usable,)` int64, the rows without a problem: `set.take(check.usable_rows)`.
        transparent: names of the usable images with transparent pixels whose hidden colors `load` shows: a
            `Preprocessing` without `background`.
    """

    problems: tuple[tuple[int, str, str], ...]
    usable_rows: np.ndarray
    transparent: tuple[str, ...] = ()

    @property
    def transparency(self) -> str:
        """How a network sees the transparent images, and how to change it; empty for none."""
        if not self.transparent:
            return ""
        first, more = self.transparent[0], len(self.transparent) - 1
        images = f"{more + 1:,} images have transparent pixels, first" if more else "1 image has transparent pixels,"
        return visible(
            f"{images} {first}: a network sees the colors hidden there. Preprocessing(background=255), or --background "
            "255 of tfdml train, makes them white."
        )

    def __str__(self) -> str:
        examples = len(self.usable_rows) + len(self.problems)
        lines = [f"{counted(examples, 'example')}, {len(self.problems):,} with a problem"]
        lines += [visible(f"  row {row}  {name}  {reason}") for row, name, reason in self.problems[:_SHOWN]]
        more = len(self.problems) - _SHOWN
        lines += [f"  and {more:,} more in problems"] * (more > 0)
        return "\n".join(lines + [self.transparency] * bool(self.transparent))

    __repr__ = __str__


class _Examination(NamedTuple):
    """The result of one row: a reason if it cannot be used; what is known of it if it can be loaded."""

    reason: str = ""
    content: Any = None
    shape: Any = None
    is_transparent: bool = False


class _Record(NamedTuple):
    """A row before loading: the argument of `load`, a checksum, and the size in pixels where it is known."""

    key: Any
    checksum: bytes
    height_width: tuple[int, int] | None


def check_files(labeled_set: Any, workers: int | None) -> FileCheck:
    """The `FileCheck` of a labeled set, see `LabeledSet.check_files`."""
    examinations = []
    for examination in _examinations(labeled_set, workers):
        examinations.append(examination)
        show_progress("files checked", len(examinations), len(labeled_set))
    by_row = dict(enumerate(examinations))
    reasons = {row: result.reason for row, result in by_row.items() if result.reason}
    reasons |= _other_shapes({row: result.shape for row, result in by_row.items() if row not in reasons})
    reasons |= _duplicates(labeled_set, {row: result.content for row, result in by_row.items() if row not in reasons})
    problems = tuple((row, _name(labeled_set, row), reason) for row, reason in sorted(reasons.items()))
    transparent = [row for row, result in by_row.items() if result.is_transparent and row not in reasons]
    usable = np.setdiff1d(np.arange(len(labeled_set)), list(reasons))
    return FileCheck(problems, usable, tuple(_name(labeled_set, row) for row in transparent))


def unreadable_files(labeled_set: Any, workers: int | None) -> tuple[tuple[int, str, str], ...]:
    """The rows that cannot be loaded, see `LabeledSet.unreadable_files`."""
    results = enumerate(_examinations(labeled_set, workers))
    return tuple((row, _name(labeled_set, row), result.reason) for row, result in results if result.content is None)


def require_whole_files(labeled_set: Any) -> None:
    """Raise an error for files that cannot be loaded, of those whose first or last bytes are of no whole image.

    It reads a few bytes of each file, and loads some that are suspicious, where `load` is a `Preprocessing`.
    """
    from concurrent.futures import ThreadPoolExecutor

    from tfdml.datasets.images.headers import begins_and_ends

    if labeled_set.paths is None or not hasattr(labeled_set.load, "from_bytes"):
        return
    with ThreadPoolExecutor(_READERS) as pool:
        are_whole = list(pool.map(begins_and_ends, labeled_set.paths.tolist(), chunksize=64))
    rows = np.flatnonzero(~np.array(are_whole, bool))[:_SUSPECTS]
    problems = unreadable_files(labeled_set.take(rows), None) if len(rows) else ()
    if problems:
        count, (_, name, reason) = len(problems), problems[0]
        files = (
            f"{count:,} files that cannot be loaded, first {name}" if count > 1 else f"{name}, which cannot be loaded"
        )
        raise unreadable(f"Received {files}: {reason.rstrip('.')}. {LEAVE_OUT}")


def _examinations(labeled_set, workers):
    from concurrent.futures import ThreadPoolExecutor

    workers = os.cpu_count() or 1 if workers is None else workers
    require_whole("workers", workers, 1)
    num_rows, block = len(labeled_set), 64 * workers
    examine = partial(_examine, labeled_set, _record_reader(labeled_set), _threadsafe_load(labeled_set))
    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, num_rows, block):
            yield from pool.map(examine, range(start, min(start + block, num_rows)))


def _examine(labeled_set, read_record, load, row):
    try:
        record = read_record(row)
        example = load(record.key)
        is_transparent = _is_transparent(labeled_set, record.key)
    except Exception as error:  # of the user's source, or of the user's load
        path = None if labeled_set.paths is None else labeled_set.paths[row]
        return _Examination(reason_of(error, path))
    box = None if labeled_set.boxes is None else labeled_set.boxes[row]
    reason = "" if box is None else _box_problem(box, record.height_width)
    shape = str(keras.tree.map_structure(lambda value: tuple(np.shape(value)), example))
    content = record.checksum, None if box is None else box.tobytes()
    return _Examination(reason, content, shape, is_transparent)


def _is_transparent(labeled_set, key):
    """Whether `load` is a `Preprocessing` that drops an alpha, of a file or of pixels, that is not opaque."""
    load = getattr(labeled_set.load, "__self__", labeled_set.load)
    if getattr(load, "background", 0) is not None:
        return False
    example = key[0] if load.boxes else key
    if isinstance(example, np.ndarray) and example.ndim == 3:
        return bool((example[..., 3:] < 255).any())
    content = Path(example).read_bytes() if labeled_set.paths is not None else example
    if not _may_be_transparent(content):
        return False
    return bool(form().is_transparent(content, load.max_bytes, load.max_pixels))


def _may_be_transparent(content):
    """Whether a file may have alpha, by its first bytes; most files have none and need no second decoding."""
    if not isinstance(content, bytes):
        return False
    if content.startswith(b"\x89PNG"):
        return content[25:26] in (b"\x04", b"\x06") or b"tRNS" in content
    return content.startswith((b"GIF8", b"RIFF"))


def _threadsafe_load(labeled_set):
    """The `load` of a set as a function that threads may call, or the identity."""
    if labeled_set.load is None:
        return lambda key: key
    if not has_tensorflow():
        return labeled_set.load
    load = tf.function(labeled_set.load, reduce_retracing=True)
    return lambda key: load(tf.nest.map_structure(tf.convert_to_tensor, key))  # A function is traced per Python value.


def _record_reader(labeled_set):
    read_record = _read_file if labeled_set.paths is not None else _read_array
    read = partial(read_record, labeled_set, threading.Lock())
    if not getattr(labeled_set.load, "boxes", False):
        return read

    def read_with_box(row):
        record = read(row)
        return record._replace(key=(record.key, labeled_set.boxes[row]))

    return read_with_box


def _read_file(labeled_set, lock, row):
    path = str(labeled_set.paths[row])
    if not os.path.getsize(path):
        raise ValueError("an empty file")
    with open(path, "rb") as file:
        checksum = hashlib.file_digest(file, "sha256").digest()
    if labeled_set.boxes is None:
        return _Record(path, checksum, None)
    return _Record(path, checksum, tuple(form().decoded(Path(path).read_bytes(), *_NO_LIMITS)[1].shape[:2]))


def _read_array(labeled_set, lock, row):
    """Row of an array or a source; few sources are thread-safe."""
    with lock:
        record = (labeled_set.images if labeled_set.source is None else labeled_set.source)[row]
    checksum = hashlib.sha256()
    for value in map(np.asarray, keras.tree.flatten(record)):
        checksum.update(f"{value.dtype.str} {value.shape} ".encode())
        checksum.update(str(value).encode() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes())
    height_width = np.shape(record)[:2] if labeled_set.source is None else None
    return _Record(record, checksum.digest(), height_width)


def _box_problem(box, height_width):
    left, upper, right, lower = box.tolist()
    text = f"the box ({left:g}, {upper:g}, {right:g}, {lower:g})"
    if not (left < right and upper < lower):
        return f"{text}, which is empty"
    height, width = (np.inf, np.inf) if height_width is None else height_width
    if are_shares(box, max(height, width)):
        return f"{text}, {SHARES}"
    if min(left, upper) < -ROUNDING or right > width + ROUNDING or lower > height + ROUNDING:
        return f"{text}, which exceeds the image of {width} x {height} pixels"
    return ""


def _other_shapes(shapes):
    """The rows whose examples do not have the most frequent shape, each with the reason; `shapes` by row."""
    most_frequent = max(shapes.values(), key=collections.Counter(shapes.values()).get, default=None)
    reason = "loads to shape {}, most examples to {}"
    return {row: reason.format(shape, most_frequent) for row, shape in shapes.items() if shape != most_frequent}


def _duplicates(labeled_set, contents):
    """The rows whose content occurs before, or under another label, each with the reason; `contents` by row."""
    rows_of = collections.defaultdict(list)
    for row, content in contents.items():
        rows_of[content].append(row)
    repeated = [rows for rows in rows_of.values() if len(rows) > 1]
    return {row: reason for rows in repeated for row, reason in _duplicate_reasons(labeled_set, rows)}


def _duplicate_reasons(labeled_set, rows):
    """Rows of one content to leave out: all but the first that has a label, or all if their labels differ."""
    labels = labeled_set.labels
    labeled = [row for row in rows if labels[row] >= 0] or rows
    for row in rows:
        conflicting = [other for other in labeled if labels[other] != labels[row] and labels[row] >= 0]
        other = conflicting[0] if conflicting else labeled[0]
        if row != other:
            same = f"the same content as row {other}, {_name(labeled_set, other)}"
            is_other = f", with the other label {labeled_set.class_names[labels[other]]!r}" if conflicting else ""
            yield row, same + is_other


def _name(labeled_set, row):
    return str(row if labeled_set.paths is None else labeled_set.paths[row])
