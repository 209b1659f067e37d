"""Labeled sets from datasets of Hugging Face."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfdml._core.checks import require
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.readers.text import numbered_classes


def huggingface(
    dataset: Any, *, image: str = "image", label: str = "label", load: Callable[..., Any] | None = None
) -> LabeledSet:
    """One split of a dataset of Hugging Face, whose images stay files until a batch needs them.

        train = huggingface(datasets.load_dataset("imagefolder", data_dir="photos")["train"])

    Nothing is downloaded here: the library `datasets` has loaded the dataset.

    Args:
        dataset: a `datasets.Dataset`, with a length, features and rows.
        image, label: names of the two columns. A label is a class, text or a whole number.
        load: `Preprocessing(size=224)` by default, or a function from the content of an image file, a string `()`.

    Returns:
        `LabeledSet` with a source. A row without a label has -1. `class_names` names all classes of the feature, also
        classes without images in this split; where labels are text or numbers, those that occur, sorted.

    Raises:
        ValueError: several splits, a stream, columns that do not exist or are of another kind.
    """
    splits = f" of {', '.join(map(repr, dataset))}" if isinstance(dataset, dict) else ""
    require(not splits, f"{type(dataset).__name__}{splits}", "one of its splits")
    is_dataset = all(hasattr(dataset, name) for name in ("features", "cast_column", "__len__", "__getitem__"))
    expected = "a datasets.Dataset, which has a length and rows. Load it with streaming=False"
    require(is_dataset, f"a dataset of type {type(dataset).__name__}", expected)
    features = dataset.features
    received = f"with the features {', '.join(f'{key} ({type(each).__name__})' for key, each in features.items())}"
    is_image = hasattr(features.get(image), "decode")
    require(is_image, f"image={image!r} of a dataset {received}", "the name of an image")
    require(label in features, f"label={label!r} of a dataset {received}", "the name of a class, text or whole number")
    records = dataset.with_format(None).cast_column(image, replace(features[image], decode=False))
    labels, names = numbered_classes(records.select_columns([label])[:][label], getattr(features[label], "names", None))
    load = Preprocessing(size=224) if load is None else load
    source = _Images(records.select_columns([image]), image)
    return LabeledSet(source=source, labels=labels, class_names=names, load=getattr(load, "from_bytes", load))


@dataclass(frozen=True, eq=False)
class _Images:
    """The encoded images of a dataset; no content for a row without an image: `load` refuses it."""

    records: Any
    name: str

    def __len__(self) -> int:
        return len(self.records)

    def fingerprint(self, portable: bool) -> str:
        """The name that the library gives to the content of the dataset."""
        return f"{self.records._fingerprint} {self.name}"

    def __getitem__(self, row: int) -> bytes:
        return _content(self.records[int(row)][self.name])

    def __getitems__(self, rows: Sequence[int]) -> list[bytes]:
        return [_content(image) for image in self.records[[int(row) for row in rows]][self.name]]


def _content(image):
    """The bytes of an image `{"bytes": ..., "path": ...}` that has one of both."""
    if image is None:
        return b""
    return Path(image["path"]).read_bytes() if image["bytes"] is None else image["bytes"]
