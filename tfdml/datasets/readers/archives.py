"""Images inside of archives: tar files of WebDataset, TFRecord files and Parquet files, read by random access."""

import functools
import os
import struct
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.checks import require
from tfdml._core.checksums import sha256_of_rows
from tfdml._core.memory_maps import BoundedReader
from tfdml._core.optional import optional_import, tf
from tfdml.datasets.caches.set_cache import states_of_files
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.text import MOST_CHARACTERS, as_names, class_name, numbered, require_short, warn_of_similar
from tfdml.typing import FilePath

_IMAGES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
_CLASS = ".cls"  # a member of a tar file that holds the class of its key
_MOST_CLASS = 4 * MOST_CHARACTERS  # bytes in UTF-8
_MOST_HEADER = 2**20  # bytes of a header with names and times
_LENGTH = struct.Struct("<Q")  # of a TFRecord, before its checksum of 4 bytes
_CHECKSUM = 4
_UNLABELED = "unlabeled"
_OPEN_ROW_GROUPS = 2


def archives(
    paths: FilePath | Sequence[FilePath],
    *,
    image: str | None = None,
    label: str | None = None,
    load: Callable[..., Any] | None = None,
) -> LabeledSet:
    """The images inside of archives, in the order of the files and of their records.

    An archive is listed and never unpacked: a record is read where it lies when a batch needs it.

    * `.tar`, as WebDataset writes them, not compressed: a record is an image file. The class is the text of the member
      with the same name and the suffix `.cls`, if there is one.
    * `.tfrecord`, also followed by more, such as `.tfrecord-00003-of-00010`: records are `tf.train.Example`. Only their
      lengths are read at first; with `label`, all of them are read once. Checksums of records are not compared.
    * `.parquet`: an image is a binary, or a struct with the binary `bytes`. A row group is read as a whole, so that an
      order at random is slow; samplers are better served by the other two.

    The name of a record is its archive and its name in it, or its number: "shards/0.tar/cat.jpg", "a.tfrecord/17".

    Example: an archive of two images with their classes.

        >>> import io, tarfile
        >>> keras.utils.save_img("1.png", np.zeros((8, 8, 3)))
        >>> with tarfile.open("shard.tar", "w") as shard:
        ...     for number, name in enumerate((b"ant", b"bee")):
        ...         shard.add("1.png", f"{number}.png")
        ...         member = tarfile.TarInfo(f"{number}.cls")
        ...         member.size = len(name)
        ...         shard.addfile(member, io.BytesIO(name))
        >>> images = tfdml.datasets.archives("shard.tar", load=tfdml.datasets.Preprocessing(size=8))
        >>> images.class_names, images.names.tolist()
        (('ant', 'bee'), ['shard.tar/0.png', 'shard.tar/1.png'])

    Args:
        paths: archives, of one kind or of several.
        image: feature of a TFRecord, "image/encoded" by default, or column of a Parquet file, "image" by default.
        label: feature or column of the class, text or a whole number; None: records of these files have no class.
        load: `Preprocessing` or function of the content of a file, a string `()`; None: `Preprocessing(size=224)`.

    Returns:
        `LabeledSet` with a source. Without classes, all records are of the class "unlabeled". `skipped` names archives
        that end before their last record; the records before are in the set.

    Raises:
        ValueError: another suffix, an archive that cannot be read, a missing feature or column, or no image at all.
    """
    files = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    listings = [_listing(Path(file).expanduser(), image, label) for file in files]
    records = [(number, *record) for number, listing in enumerate(listings) for record in listing.records]
    expected = f"at least one: files that end in {', '.join(_IMAGES)} in a tar file, or records"
    require(len(records) > 0, f"{len(files)} archives without an image", expected)
    numbers, names, starts, lengths, classes = zip(*records, strict=True)
    source = Archives(
        files=tuple(str(Path(file).expanduser()) for file in files),
        readers=tuple(listing.reader for listing in listings),
        archive=np.array(numbers, np.int32),
        names=as_names(names),
        starts=np.array(starts, np.int64),
        lengths=np.array(lengths, np.int64),
    )
    labels, class_names = numbered([_UNLABELED if name is None else class_name(name) for name in classes])
    warn_of_similar(class_names, stacklevel=2)
    load = Preprocessing(size=224) if load is None else load
    return LabeledSet(
        source=source,
        labels=labels,
        class_names=class_names,
        load=getattr(load, "from_bytes", load),
        skipped=tuple(listing.problem for listing in listings if listing.problem is not None),
    )


class Record(NamedTuple):
    """A record of an archive; in a Parquet file, `start` is the number of the row group, and `length` the row in it."""

    name: str
    start: int
    length: int
    label: str | None


class Listing(NamedTuple):
    """The records of an archive, a function that reads them, and why it ends early: `(path, reason)`, or None."""

    records: list[Record]
    reader: Callable[[np.ndarray, np.ndarray], list[bytes]]
    problem: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Archives:
    """The contents of the image files in archives, one per row: a source; a reader takes starts and lengths."""

    files: tuple[str, ...]
    readers: tuple[Callable[[np.ndarray, np.ndarray], list[bytes]], ...]
    archive: np.ndarray
    names: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.archive)

    def __getitem__(self, row: int) -> bytes:
        return self.__getitems__([row])[0]

    def fingerprint(self, portable: bool) -> str:
        """The state of each archive, see `LabeledSet.fingerprint`, and a checksum of names, starts and lengths."""
        owners = zip(self.names.tolist(), self.archive.tolist(), strict=True)
        names = np.array([name.removeprefix(self.files[number]) for name, number in owners])
        columns = (names, self.archive, self.starts, self.lengths)
        return "\n".join([*states_of_files(self.files, portable), *map(sha256_of_rows, columns)])

    def __getitems__(self, rows: Sequence[int]) -> list[bytes]:
        contents: list[bytes] = []
        for number, group in groupby(rows, lambda row: int(self.archive[row])):
            group_rows = np.array(list(group), np.int64)
            contents += self.readers[number](self.starts[group_rows], self.lengths[group_rows])
        return contents


def _bytes_at(path, starts, lengths):
    """The bytes of a file at each start; none past its end. The file is opened for each read."""
    with open(path, "rb") as file:
        return [_read(file, start, length) for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)]


def _read(file, start, length):
    file.seek(start)
    return file.read(length)


def _features_at(path, name, starts, lengths):
    """A feature of bytes of `tf.train.Example` records; empty for a record without it, which then cannot be decoded."""
    return [_feature_or_empty(record, name) for record in _bytes_at(path, starts, lengths)]


def _cells_at(path, column, groups, rows):
    spans = zip(groups.tolist(), rows.tolist(), strict=True)
    return [_row_group(path, column, group)[row].as_py() or b"" for group, row in spans]


def _listing(path, image, label):
    if not path.is_file():
        raise FileNotFoundError(f"Received the archive {str(path)!r}, which does not exist.")
    kinds = {".tar": _tar, ".parquet": _parquet}
    kind = _tfrecord if ".tfrecord" in path.name else kinds.get(path.suffix)
    require(kind is not None, f"the archive {str(path)!r}", "a .tar, .tfrecord or .parquet file, not compressed")
    return kind(path, image, label)


def _tar(path, image, label):
    images, classes, problem, size = [], {}, None, path.stat().st_size
    try:
        with (
            path.open("rb") as content,
            tarfile.open(fileobj=BoundedReader(content, _MOST_HEADER), mode="r:", tarinfo=_Member) as archive,
        ):
            for member in archive:
                suffix = PurePosixPath(member.name).suffix.lower()
                if not member.isfile() or suffix not in (*_IMAGES, _CLASS):
                    continue
                _require_member(member, size)
                if suffix == _CLASS:
                    classes[_key(member.name)] = archive.extractfile(member).read().decode()
                else:
                    images.append((member.name, member.offset_data, member.size))
    except (tarfile.TarError, OSError, ValueError, OverflowError) as error:  # of tarfile, too
        require(len(images) > 0, f"{str(path)!r}, which cannot be read ({error})", "a tar file, not compressed")
        problem = str(path), f"ends after {images[-1][0]}: {error}"
    records = [Record(f"{path}/{name}", start, size, classes.get(_key(name))) for name, start, size in images]
    return Listing(records, functools.partial(_bytes_at, str(path)), problem)


class _Member(tarfile.TarInfo):
    """A member of an archive. The list of the holes of a sparse one is not read, since it has any length."""

    def _refuse(self, *_: Any) -> Any:
        raise tarfile.ReadError(f"{self.name[:200]!r} is a sparse file, expected whole ones. Write it without holes")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse


def _require_member(member, size):
    """Raise a TarError unless a member lies in the archive and has the name of a file, and a class is a name."""
    try:
        require_short("a member", member.name)
        require(
            not member.issparse(), f"{member.name!r}, a sparse file", "whole files: write the archive without holes"
        )
        is_inside = member.offset_data + member.size <= size
        require(is_inside, f"{member.name!r} of {member.size:,} bytes", f"at most those of the archive, {size:,}")
        is_class = PurePosixPath(member.name).suffix.lower() == _CLASS
        require(not is_class or member.size <= _MOST_CLASS, f"{member.name!r} of {member.size:,} bytes", "a class name")
    except ValueError as error:
        raise tarfile.TarError(str(error)) from error


def _key(name):
    """The name of a member up to the first dot of its last part, which the members of a record share."""
    folder, _, last = name.rpartition("/")
    return folder, last.partition(".")[0]


def _tfrecord(path, image, label):
    name = image or "image/encoded"
    spans, problem = _frames(path)
    with path.open("rb") as file:
        for span in spans[:1]:
            _feature(_read(file, *span), name)
        classes = [None if label is None else _text(_feature(_read(file, *span), label)) for span in spans]
    records = [Record(f"{path}/{number}", *span, classes[number]) for number, span in enumerate(spans)]
    return Listing(records, functools.partial(_features_at, str(path), name), problem)


def _frames(path):
    """Start and length of each record of a TFRecord file, and why it ends early."""
    spans, position, size = [], 0, path.stat().st_size
    with path.open("rb") as file:
        while position < size:
            file.seek(position)
            header = file.read(_LENGTH.size)
            length = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else size
            start = position + _LENGTH.size + _CHECKSUM
            if start + length + _CHECKSUM > size:
                return spans, (str(path), f"ends within record {len(spans)}, or is no TFRecord file")
            spans.append((start, length))
            position = start + length + _CHECKSUM
    return spans, None


def _feature(record, name):
    try:
        features = tf.train.Example.FromString(record).features.feature
    except Exception as error:  # of protobuf, which has several
        raise ValueError(f"Received a record that is no tf.train.Example ({error}).") from error
    kind = features[name].WhichOneof("kind") if name in features else None
    values = getattr(features[name], kind).value if kind else ()
    require(len(values) > 0, f"a record without the feature {name!r}", f"one of {', '.join(sorted(features))}")
    return values[0]


def _feature_or_empty(record, name):
    """As `_feature`; empty for a record without it, so that its error stays with its row."""
    try:
        return _feature(record, name)
    except ValueError:
        return b""


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def _parquet(path, image, label):
    parquet = optional_import("pyarrow.parquet", feature="A Parquet file", extra="tables")
    column = image or "image"
    try:
        with path.open("rb") as content:
            file = parquet.ParquetFile(content)
            groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            names = file.schema_arrow.names
            missing = [name for name in (column, label) if name is not None and name not in names]
            require(not missing, f"{str(path)!r} without the column {missing[:1]}", f"one of {', '.join(names)}")
            classes = [None] * sum(groups) if label is None else file.read([label])[label].to_pylist()
    except OSError as error:  # ArrowInvalid is a ValueError and says what is wrong
        raise ValueError(f"Received {str(path)!r}, which cannot be read: {error}.") from error
    spans = [(group, row) for group, count in enumerate(groups) for row in range(count)]
    records = [
        Record(f"{path}/{number}", *span, None if classes[number] is None else _text(classes[number]))
        for number, span in enumerate(spans)
    ]
    return Listing(records, functools.partial(_cells_at, str(path), column))


@functools.lru_cache(maxsize=_OPEN_ROW_GROUPS)
def _row_group(path, column, group):
    from pyarrow import parquet, types

    with open(path, "rb") as content:
        images = parquet.ParquetFile(content).read_row_group(group, columns=[column])[column].combine_chunks()
    return images.field("bytes") if types.is_struct(images.type) else images
