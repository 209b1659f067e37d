"""Labeled sets from datasets of Hugging Face, by a stand-in with the methods of `datasets.Dataset`."""

import io
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from PIL import Image as Pillow

from tfdml import samplers
from tfdml.datasets import Preprocessing, huggingface

SHADES = [0, 50, 100, 150, 200, 250]
VIEW = Preprocessing(size=4)


@dataclass
class Image:
    """The feature of images: rows have decoded images, or their files."""

    decode: bool = True


@dataclass
class ClassLabel:
    """The feature of classes."""

    names: list


class Value:
    """The feature of texts and numbers."""


@dataclass
class Dataset:
    """Columns with features, which know their format."""

    columns: dict
    features: dict
    format: str | None = None
    read: list = field(default_factory=list)
    _fingerprint: str = "a1"

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def with_format(self, form):
        return replace(self, format=form)

    def cast_column(self, name, feature):
        return replace(self, features={**self.features, name: feature}, _fingerprint=f"{self._fingerprint} {feature}")

    def select_columns(self, names):
        return replace(self, columns={name: self.columns[name] for name in names})

    def __getitem__(self, rows):
        assert self.format is None
        assert "image" not in self.columns or not self.features["image"].decode
        self.read.append(rows)
        chosen = np.arange(len(self))[rows].tolist()
        one = isinstance(chosen, int)
        return {key: values[chosen] if one else [values[row] for row in chosen] for key, values in self.columns.items()}


def png(shade):
    file = io.BytesIO()
    Pillow.fromarray(np.full((6, 5, 3), shade, np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def dataset(tmp_path):
    """Six images, half of them by their path; columns of another format than Python's."""
    images = []
    for row, shade in enumerate(SHADES):
        path = tmp_path / f"{row}.png"
        path.write_bytes(png(shade))
        images.append({"bytes": None, "path": str(path)} if row % 2 else {"bytes": png(shade), "path": None})
    columns = {
        "image": images,
        "label": [0, 1, 0, 1, 0, 1],
        "place": ["é", "wood", "e\N{COMBINING ACUTE ACCENT}", "wood", "field", "field"],
        "year": [2001, 2000, 2000, 2000, 2001, 2000],
        "weight": [0.5] * 6,
    }
    features = {
        "image": Image(),
        "label": ClassLabel(["bee", "ant", "cat"]),
        **dict.fromkeys(list(columns)[2:], Value()),
    }
    return Dataset(columns, features, format="torch")


def test_a_split_is_read_by_random_access(dataset):
    part = huggingface(dataset, load=VIEW)
    assert part.class_names == ("bee", "ant", "cat")
    assert part.labels.tolist() == [0, 1] * 3
    np.testing.assert_array_equal(part.take([5, 0, 3]).examples()[:, 1, 1, 0], [250, 0, 150])
    images, labels = next(iter(samplers.GroupSampler(classes_per_batch=2, examples_per_class=2).batches(part)))
    np.testing.assert_array_equal(images[:, 0, 0, 0].numpy() // 50 % 2, labels)
    assert slice(None) in dataset.read  # the labels at once


def test_the_default_is_224_pixels(dataset):
    assert huggingface(dataset).batches(4).element_spec[0].shape[1:] == (224, 224, 3)


@pytest.mark.parametrize(
    ("label", "names", "labels"),
    [("place", ("field", "wood", "é"), [2, 1, 2, 1, 0, 0]), ("year", ("2000", "2001"), [1, 0, 0, 0, 1, 0])],
)
def test_labels_may_be_text_or_numbers(label, names, labels, dataset):
    part = huggingface(dataset, label=label)
    assert part.class_names == names
    assert part.labels.tolist() == labels


def test_a_row_without_an_image_is_named(dataset):
    dataset.columns["image"][4] = None
    ((_, row, reason),) = huggingface(dataset, load=VIEW).unreadable_files()
    assert (row, reason[:7]) == ("4", "0 bytes")


def test_another_content_has_another_fingerprint(dataset):
    part, same, other = (
        huggingface(replace(dataset, _fingerprint=text), load=VIEW).fingerprint() for text in ("a1", "a1", "b2")
    )
    assert part == same != other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "kind"}, r"label='kind' .*place \(Value\).*, expected the name of a class, text or whole number"),
        ({"label": "weight"}, "labels of type float, expected classes, text"),
        ({"image": "place"}, r"image='place' .*expected the name of an image"),
    ],
)
def test_columns_that_do_not_fit_are_refused(options, message, dataset):
    with pytest.raises(ValueError, match=message):
        huggingface(dataset, **options)


@pytest.mark.parametrize("missing", [-1, None])
def test_rows_without_a_class_have_no_label(missing, dataset):
    """Test splits of the hub have the label -1."""
    dataset.columns["label"][2] = missing
    assert huggingface(dataset).labels[2] == -1


def test_splits_and_streams_are_refused(dataset):
    with pytest.raises(ValueError, match="dict of 'train', 'test', expected one of its splits"):
        huggingface({"train": dataset, "test": dataset})
    with pytest.raises(ValueError, match=r"dataset of type list_iterator, expected a datasets[.]Dataset"):
        huggingface(iter([1]))
