"""Labeled sets from tensorflow-datasets."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml._core.terminal import show_progress
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.readers.text import numbered_classes

_LABELS_AT_ONCE = 256


def tfds(
    name: str,
    split: str,
    *,
    image: str = "image",
    label: str = "label",
    data_dir: str | os.PathLike | None = None,
    load: Callable[..., Any] | None = None,
    **options: Any,
) -> LabeledSet:
    """A data set of tensorflow-datasets, read by random access from ArrayRecord or Parquet files.

        train = tfds("cars196", "train")

    All records are read once to collect the labels. tensorflow-datasets downloads and prepares what is not yet on disk.

    Args:
        name: name of the data set, with config and version if needed: "mnist", "glue/sst2:1.0.0".
        split: split of the data set: "train", "test[:10%]".
        image, label: names of the two features. A label is a class, text or a whole number.
        data_dir: folder of the prepared data; the default of tensorflow-datasets if None.
        load: `Preprocessing(size=224)` by default, or a function from the content of an image file, a string `()`.
        options: other options of `tfds.data_source`, such as `download=False`.

    Returns:
        `LabeledSet` with a source. `class_names` names all classes of the data set, also classes without images in this
        split; where labels are text or numbers, those that occur, sorted.

    Raises:
        ValueError: features that do not exist or are of another kind, or files without random access.
    """
    library = optional_import("tensorflow_datasets", feature="tfds", extra="tfds")
    optional_import("tensorflow", feature="tfds", extra="tensorflow")
    decoders = {image: library.decode.SkipDecoding()}
    try:
        records = library.data_source(name, split=split, data_dir=data_dir, decoders=decoders, **options)
    except NotImplementedError as error:
        raise ValueError(
            f"Received name={name!r}, which was prepared in files without random access, expected ArrayRecord files. "
            f"Prepare it again in another data_dir, with tfds.builder({name!r}, data_dir=..., "
            "file_format='array_record').download_and_prepare()."
        ) from error
    features = records.dataset_info.features
    _require_feature(features, "image", image, library.features.Image)
    _require_feature(features, "label", label, library.features.FeatureConnector)
    labels, names = numbered_classes(_labels(records, label), getattr(features[label], "names", None))
    load = Preprocessing(size=224) if load is None else load
    return LabeledSet(
        source=_Images(records, image),
        labels=labels,
        class_names=names,
        load=getattr(load, "from_bytes", load),
    )


def _require_feature(features, option, name, kind):
    received = ", ".join(f"{key} ({type(feature).__name__})" for key, feature in features.items())
    is_feature = name in features and isinstance(features[name], kind)
    kind = "an image" if option == "image" else "a class, text or whole number"
    require(is_feature, f"{option}={name!r} of a data set with the features {received}", f"the name of {kind}")


@dataclass(frozen=True, eq=False)
class _Images:
    """The encoded images of a data source."""

    records: Any
    name: str

    def __len__(self) -> int:
        return len(self.records)

    def fingerprint(self, portable: bool) -> str:
        """Name, version and split of the data set, and how many bytes its examples have."""
        info, split = self.records.dataset_info, self.records.split
        return f"{info.full_name} {split} {info.dataset_size} {self.name}"

    def __getitem__(self, row: int) -> bytes:
        return self.records[row][self.name]

    def __getitems__(self, rows: Sequence[int]) -> list[bytes]:
        return [record[self.name] for record in self.records.__getitems__(rows)]


def _labels(records, name):
    labels: list[Any] = []
    for start in range(0, len(records), _LABELS_AT_ONCE):
        rows = list(range(start, min(start + _LABELS_AT_ONCE, len(records))))
        labels += [np.asarray(record[name]).item() for record in records.__getitems__(rows)]
        show_progress("labels read", len(labels), len(records))
    return labels
