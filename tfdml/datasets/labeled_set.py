"""Labeled sets: what every function of `tfdml.datasets` returns, and what samplers, callbacks and metrics take."""

import hashlib
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, counted, labeled_part, require, require_whole
from tfdml._core.optional import has_tensorflow
from tfdml._core.stored import is_on_disk, rows_on_disk
from tfdml.datasets import integrity, splits
from tfdml.datasets.caches.set_cache import cached, fingerprint, fingerprint_of_source
from tfdml.datasets.images.fit import are_shares, require_pixels
from tfdml.datasets.integrity import FileCheck
from tfdml.datasets.readers.text import require_utf8
from tfdml.datasets.summary import Description, describe
from tfdml.typing import FilePath

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

COLUMN = {"column": True}  # metadata of a field with one entry per example, which subsets of a set take along


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LabeledSet:
    """Examples with their classes: image files, an array of images, or a source. Row i of every column is example i.

    Samplers, evaluation, refresh callbacks and `tfdml.models.embed` take a set.

    Example: four images of three classes.

        >>> images, labels = np.zeros((4, 8, 8, 1), "uint8"), np.array([0, 0, 1, 2])
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=labels, class_names=("ant", "bee", "cat"))
        >>> data
        <LabeledSet: 4 examples of 3 classes>
        >>> data.select_classes(["bee", "cat"]).labels
        array([0, 1])

    A subclass, a frozen dataclass, marks its own columns: `field(metadata={"column": True})`. Subsets take them along.

    An example without a label is in the set with the label -1: a photograph to embed and find that has no class. `len`,
    `take`, `batches`, `examples` and `fingerprint` have it. What needs a class leaves it out and says how
    many: `split`, `select_classes`, samplers, evaluation. `labeled` is the set without such examples.

    Attributes:
        labels: `(n,)` int64, an index into `class_names`; -1 for an example without a label.
        class_names: tuple of str.
        paths: `(n,)` str, image files; or None.
        images: `(n, height, width, channels)`, an array or a memory map; or None.
        source: object with `len(source)` and `source[row]`, such as a reader of records; or None.
        boxes: `(n, 4)` float64, the left, upper, right and lower border of the object in pixels; None without boxes.
        groups: `(n,)` int64, such as the sequence of an image; None without groups.
        cameras: `(n,)` int64, the camera of an image, as `tfdml.metrics.reidentification` takes it; None without.
        load: function from one path, image or record to one example, as in tests: the preprocessing, of TensorFlow
            where it is installed, else of NumPy. Its attribute `boxes` says whether it takes a tuple `(path, box)`.
            None: images and records are examples.
        skipped: tuple of `(path, reason)`, both str: files and rows that are not in the set.
        protocol: the id to report numbers of this set under; None for data of your own.

    Raises:
        ValueError: not exactly one of paths, images and source; columns that do not fit each other; files without
            `load`; a path or a class name that is not UTF-8.
    """

    labels: np.ndarray = field(metadata=COLUMN)
    class_names: tuple[str, ...]
    paths: np.ndarray | None = field(default=None, metadata=COLUMN)
    images: np.ndarray | None = field(default=None, metadata=COLUMN)
    source: Any = field(default=None, metadata=COLUMN)
    boxes: np.ndarray | None = field(default=None, metadata=COLUMN)
    groups: np.ndarray | None = field(default=None, metadata=COLUMN)
    cameras: np.ndarray | None = field(default=None, metadata=COLUMN)
    load: Callable[..., Any] | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    protocol: str | None = None

    def __post_init__(self) -> None:
        """Raise the errors of the class."""
        origins = [name for name in ("paths", "images", "source") if getattr(self, name) is not None]
        require(len(origins) == 1, " and ".join(origins) or "no examples", "paths, images or a source")
        require_utf8("paths", [] if self.paths is None else np.asarray(self.paths).tolist())
        require_utf8("class_names", self.class_names)
        labels = _as_labels(self.labels)
        object.__setattr__(self, "labels", labels)
        for name in _columns(self):
            received = f"{len(getattr(self, name))} {name} and {len(labels)} labels"
            require(len(getattr(self, name)) == len(labels), received, "the same number")
        if len(labels):
            received = f"labels from {labels.min()} to {labels.max()} and {len(self.class_names)} class names"
            expected = "indices into the names, or -1 for no label"
            require(labels.min() >= -1 and labels.max() < len(self.class_names), received, expected)
        expected = "a function that reads a file: Preprocessing(...)"
        require(self.paths is None or self.load is not None, "paths without load", expected)
        takes_boxes = getattr(self.load, "boxes", False)
        received = f"a load that takes boxes, and {'no boxes' if self.boxes is None else 'a source'}"
        expected = "paths or images with boxes. Pass boxes, or a load with boxes=False"
        require(not takes_boxes or (self.boxes is not None and self.source is None), received, expected)
        boxes = np.asarray(self.boxes) if takes_boxes and self.paths is not None else np.empty((0, 4))
        if are_shares(boxes).all():  # a part of a set may have some
            require_pixels(boxes)

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.labels)

    def __repr__(self) -> str:
        protocol = f", protocol {self.protocol}" if self.protocol else ""
        examples = f"{counted(len(self), 'example')} of {counted(len(self.class_names), 'class')}"
        num_others = int(np.count_nonzero(self.labels < 0))
        others = f", {num_others:,} without a label" if num_others else ""
        return f"<{type(self).__name__}: {examples}{others}{protocol}>"

    @property
    def labeled(self) -> Self:
        """The set of the examples that have a label: the set itself if all have one."""
        return self.take(self.labels >= 0) if (self.labels < 0).any() else self

    @property
    def names(self) -> np.ndarray | None:
        """`(n,)` str that tell the examples apart: the paths, or the names of a source that has them; None without."""
        return self.paths if self.paths is not None else getattr(self.source, "names", None)

    @property
    def keys(self) -> Any:
        """The arguments of `load`, example by example: paths, images or the source, and boxes if `load` takes them."""
        keys = next(column for column in (self.paths, self.images, self.source) if column is not None)
        return (keys, self.boxes) if getattr(self.load, "boxes", False) else keys

    def batches(self, batch_size: int = 256) -> "tf.data.Dataset | keras.utils.PyDataset":
        """All examples once, in order, loaded in parallel: a finite `tf.data.Dataset` of `(examples, labels)`.

        The last batch may be shorter. Examples without a label have -1. Without TensorFlow, it is a
        `keras.utils.PyDataset` of NumPy arrays, loaded by threads.

        Raises:
            tf.errors.InvalidArgumentError: while it is read, an example that cannot be loaded, which it names; a
                ValueError without TensorFlow.
        """
        self._require_batches(batch_size)
        return _loading().in_order(self.keys, self.load, self.labels, batch_size=batch_size)

    def loadable(self, batch_size: int = 256, start: int = 0) -> Iterable[tuple[Any, Any]]:
        """The examples that can be loaded, in order, in batches that do not depend on `start`.

        A batch lacks its examples that cannot be loaded; a batch without any, or whose examples differ in shape, is
        left out. `unreadable_files` gives the reasons. `start`, the first row, is a multiple of `batch_size`.

        Returns:
            A finite `tf.data.Dataset`, or an iterator, of `(examples, rows)`: row numbers of the set, int64.
        """
        self._require_batches(batch_size)
        return _loading().loadable(self.keys, self.load, len(self), batch_size=batch_size, start=start)

    def examples(self) -> np.ndarray:
        """All examples as one array `(n, ...)`, as `batches` loads them; `set.take(rows).examples()` for some."""
        if self.images is not None and self.load is None:
            return np.asarray(self.images)
        return np.concatenate([np.asarray(examples) for examples, _ in self.batches()])

    def take(self, rows: np.ndarray | Sequence[int] | slice) -> Self:
        """The set of some examples, with the same classes and without a protocol: that is for numbers of the whole set.

        `rows` are row numbers, in the order of the new set, a slice, or `(n,)` bool.
        """
        rows = np.arange(len(self))[rows if isinstance(rows, slice) or len(rows) else slice(0)]
        return replace(self, protocol=None, **{name: _rows_of(getattr(self, name), rows) for name in _columns(self)})

    def select_classes(self, names: npt.ArrayLike) -> Self:
        """The set of some classes, by names or indices; its labels are dense again, in the order of `class_names`.

        Examples without a label are in no class.
        """
        numbers = np.unique([self._class_number(name) for name in np.atleast_1d(names).tolist()])
        subset = self.take(np.isin(self.labels, numbers))
        return replace(
            subset,
            labels=np.searchsorted(numbers, subset.labels),
            class_names=tuple(self.class_names[number] for number in numbers),
        )

    def split(
        self, validation: float = 0.2, *, by: Literal["class", "image", "group"] = "class", seed: int = 0
    ) -> tuple[Self, Self]:
        """A training and a validation part, drawn at random; a warning counts examples without a label, left out.

        * `by="class"`: no class is in both parts, as in retrieval of unseen classes; labels are dense in each part, and
          `class_names` names the classes of the part.
        * `by="image"`: each class is split, and both parts have all `class_names`. A class of c images gives the
          validation part `validation * c` images, rounded at random up or down, and keeps at least one for training.
        * `by="group"`: no group is in both parts, and both parts have all `class_names`. A class whose groups are all
          in the validation part has no image for training.

        The draw depends on the seed and the class names (or group ids) only: another order of the classes, or more
        examples of other classes, give the same parts. With `by="image"` it also depends on the order inside a class.

        Args:
            validation: share of the classes, images or groups in the validation part; both parts get at least one.
            by: what is drawn.
            seed: whole number.

        Returns:
            `(train, validation)`, without a protocol, each in the order of the set.
        """
        data = labeled_part(self, "parts of a set")
        rows = splits.split(data, validation, by=by, seed=seed)
        train, held_out = data.take(rows[0]), data.take(rows[1])
        if by != "class":
            return train, held_out
        return train.select_classes(np.unique(train.labels)), held_out.select_classes(np.unique(held_out.labels))

    def describe(self) -> Description:
        """Counts, class sizes, groups and skipped files as a record that prints as a table and a histogram."""
        return describe(self)

    def check_files(self, workers: int | None = None) -> FileCheck:
        """Load all examples, and list the problems: unreadable files, duplicates, boxes outside their image.

            check = photos.check_files()
            print(check)
            photos = photos.take(check.usable_rows)

        A row is listed, with the reason, if

        * its file is missing or empty, or `load` fails on it;
        * it loads to another shape than most;
        * its content (the bytes of the file, the array or the record, and the box) occurs in an earlier row of the same
          class, or anywhere in another class: then all its rows are listed, because any label may be wrong. Of a row
          with a label and one without, the latter is listed;
        * its box is empty, or exceeds the upright image by more than one pixel. A source has no known image sizes.

        Args:
            workers: number of threads; None for the number of cores.
        """
        return integrity.check_files(self, workers)

    def unreadable_files(self, workers: int | None = None) -> tuple[tuple[int, str, str], ...]:
        """The examples that cannot be loaded, as `(row, name, reason)`; `workers` as in `check_files`."""
        return integrity.unreadable_files(self, workers)

    def require_whole_files(self) -> None:
        """Raise a ValueError that names a file which cannot be loaded, where first or last bytes show it.

        It reads a few bytes of each file where `load` is a `Preprocessing`; `embed` calls it. `check_files` loads all.
        """
        integrity.require_whole_files(self)

    def fingerprint(self, *, portable: bool = False) -> str:
        """A checksum that tells this set from others without loading it, for results that depend on it.

        It covers labels, class names and boxes; the paths, sizes and modification times of files; all bytes
        of an array of images, at 1 to 2 GB per second of a core; and the settings of `load`, or the name of a plain
        function.
        Archives count by their paths, sizes and modification times, and by the names, starts and lengths of their
        records. A source of your own counts by its number of rows and its `names`, if it has them: give it a method
        `fingerprint(portable)` that returns a text if its records can change.

        Args:
            portable: whether copies of the files in other folders, or on other machines, have the same checksum: paths
                begin at the common folder of all, and modification times do not count.
        """
        return fingerprint(self, portable)

    def cached(self, path: FilePath, *, load: Callable[..., Any] | None = None) -> Self:
        """The set with all examples loaded once, in a memory-mapped file: for when decoding is slow.

            train = train.cached("cache/train", load=view.uncropped)

        The file takes `examples * height * width * channels` bytes of disk for uint8 images, and no main memory:
        samplers and `batches` read the rows of a batch when they need them. Subsets and splits share it.

        A cache of this set is used if files, images, boxes and settings of `load` are the same, as in `fingerprint`,
        some examples, loaded again, are equal, and its files have the checksums in `SHA256SUMS`; only this call
        compares them. It replaces any other cache, also a damaged one, with a warning, and writes the folder in one
        step, also if several processes do it.

        Args:
            path: a new folder, or one that holds a cache. Each part of a data set needs its own.
            load: what to apply before writing the examples; None for the set's `load`. It must give the same example
                every time: random augmentation belongs to the sampler.

        Returns:
            The set with a memory map as `images`, and without `paths`, `source`, `load` and `boxes`.

        Raises:
            FileExistsError: a folder with other files; they stay unchanged; the first one is named.
            ValueError: a set without examples, or examples that are not arrays of numbers.
            tf.errors.InvalidArgumentError: an example that cannot be loaded, which it names; see `check_files`.
        """
        return cached(self, path, load)

    def _require_batches(self, batch_size):
        require_whole("batch_size", batch_size, 1)
        require(len(self) > 0, "a set without examples", "at least one. Check the rows or classes taken")

    def _class_number(self, name):
        if isinstance(name, str) and name in self.class_names:
            return self.class_names.index(name)
        if isinstance(name, int) and 0 <= name < len(self.class_names):
            return name
        raise ValueError(f"Received the class {name!r}, expected a name, or a number below {len(self.class_names)}.")


def _loading():
    """The module that loads batches: by `tf.data`, or by threads and NumPy where TensorFlow is not installed."""
    return importlib.import_module(f"tfdml.datasets.{'streams' if has_tensorflow() else 'rows'}")


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of a source."""

    source: Any
    rows: np.ndarray

    def __len__(self):
        return len(self.rows)

    @property
    def names(self):
        names = getattr(self.source, "names", None)
        return None if names is None else names[self.rows]

    def fingerprint(self, portable):
        rows = hashlib.sha256(np.ascontiguousarray(self.rows).tobytes()).hexdigest()
        return f"{fingerprint_of_source(self.source, portable)} {rows}"

    def __getitem__(self, row):
        return self.source[int(self.rows[row])]

    def __getitems__(self, rows):
        rows = self.rows[rows].tolist()
        many = getattr(self.source, "__getitems__", None)
        return many(rows) if many else [self.source[row] for row in rows]


def _as_labels(labels):
    """Labels as int64 `(n,)`; missing integers of pandas are -1."""
    if hasattr(labels, "columns") and len(labels.columns) == 1:
        labels = labels[labels.columns[0]]
    if str(getattr(labels, "dtype", "")).startswith(("Int", "UInt")):
        labels = labels.to_numpy(np.int64, na_value=-1)
    return as_ids(labels, "labels") if len(labels) else np.empty(0, np.int64)


def _columns(labeled_set):
    names = [column.name for column in fields(labeled_set) if column.metadata.get("column")]
    return [name for name in names if getattr(labeled_set, name) is not None]


def _rows_of(values, rows):
    if is_on_disk(values):
        return rows_on_disk(values, rows)
    if hasattr(values, "__array__"):
        return values[rows]
    return _Rows(values.source, values.rows[rows]) if isinstance(values, _Rows) else _Rows(values, rows)
