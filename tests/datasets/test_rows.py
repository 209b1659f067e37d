"""Rows loaded by threads and NumPy, beside the form of `tf.data`."""

import pickle
import re

import numpy as np
import pytest
import tensorflow as tf

from tfdml.datasets import rows, streams
from tfdml.datasets.rows import RowLoader

LABELS = np.repeat(np.arange(3), 4)
ROWS = np.array([7, 0, 11, 7])
BAD = (5, 6)


class Source:
    """Records of several shapes, two of which cannot be read."""

    def __init__(self, bad=()):
        self.bad = bad

    def __len__(self):
        return 12

    def __getitem__(self, row):
        if row in self.bad:
            raise OSError("the disk is gone")
        return {"image": np.full((2 + row % 3, 4), row), "name": f"ä{row}"}


class ManyAtOnce(Source):
    def __getitems__(self, numbers):
        return [self[row] for row in numbers]


def memory_map(folder):
    array = np.lib.format.open_memmap(folder / "x.npy", "w+", "float32", (12, 2))
    array[:] = np.arange(24).reshape(12, 2)
    return np.load(folder / "x.npy", mmap_mode="r")


def double(example):
    return example * 2


def first_two(record):
    return record["image"][:2], record["name"]


def unless_bad(row):
    if row in BAD:
        raise ValueError("a bad row")
    return np.asarray(row)


WAYS = {
    "array": (lambda folder: np.arange(12.0), None),
    "lists in a tuple": (lambda folder: (list(range(12)), [f"{row}.png" for row in range(12)]), None),
    "bytes that end in zeros": (lambda folder: [b"\0" * row for row in range(12)], None),
    "dict": (lambda folder: {"x": np.eye(12), "map": memory_map(folder)}, None),
    "memory map": (memory_map, double),
    "source": (lambda folder: Source(), first_two),
    "source of many at once": (lambda folder: ManyAtOnce(), first_two),
}


@pytest.mark.parametrize("way", WAYS)
def test_batches_are_those_of_tf_data_also_of_a_pickled_loader(way, tmp_path):
    make, load = WAYS[way]
    data = make(tmp_path)
    expected = list(streams.in_order(data, load, LABELS, batch_size=5))
    batches = rows.in_order(data, load, LABELS, batch_size=5)
    loader = pickle.loads(pickle.dumps(RowLoader(data, load, LABELS, workers=1)))
    again = [loader.batch(part) for part in np.split(np.arange(12), [5, 10])]
    assert len(batches) == 3
    for found in (list(batches), [batches[number] for number in range(3)], again):
        for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
            np.testing.assert_array_equal(tf.constant(one), other)


def test_augmentation_takes_the_seed_of_its_row():
    loader = RowLoader(np.arange(12), double, LABELS, lambda example, seed: example + seed.sum())
    found, labels = loader.batch(ROWS, np.arange(8).reshape(4, 2))
    np.testing.assert_array_equal(found, 2 * ROWS + [1, 5, 9, 13])
    np.testing.assert_array_equal(labels, LABELS[ROWS])


@pytest.mark.parametrize(
    ("data", "load", "message"),
    [
        (np.arange(12), unless_bad, "row 5 (label 1, key 5), which cannot be loaded: a bad row. Leave out what"),
        (ManyAtOnce(BAD), first_two, "row 5 (label 1), which cannot be loaded: the disk is gone. Leave out what"),
        (
            Source(),
            None,
            "examples of shape [2 4] [] and [3 4] [], the latter from row 1 (label 0). Expected one shape",
        ),
    ],
)
def test_an_error_names_the_row_as_that_of_tf_data(data, load, message):
    with pytest.raises(ValueError, match=f"^Received {re.escape(message)}"):
        RowLoader(data, load, LABELS).batch(np.arange(12))


def test_the_name_of_a_row_is_that_of_tf_data():
    boxes = np.tile([[0.5, 1.5, 3, 7]], (12, 1))
    data = np.array([f"{row}.png" for row in range(12)]), boxes, np.linspace(0, 1, 12), np.zeros((12, 2, 2, 2))
    loader = streams._loader(data, lambda record: record, None, LABELS)
    expected = loader._name(tf.constant(4, tf.int64)).numpy().decode()
    assert RowLoader(data, None, LABELS)._name(4) == expected


def test_a_row_that_fails_is_replaced_by_another_of_its_class_that_is_not_in_the_batch():
    replaced = []
    for on_error in ("skip", replaced.append):
        loader, seen = RowLoader(np.arange(12), unless_bad, LABELS, on_error=on_error), set()
        for first in range(4):
            found, _ = loader.batch(np.array([5, 4, first]))
            np.testing.assert_array_equal(found, loader.batch(np.array([5, 4, first]))[0])
            assert found.tolist()[1:] == [4, first]
            seen.add(int(found[0]))
        assert seen == {7}
    assert set(replaced) == set(BAD)
    message = r"row 5 \(label 0, key 5\), and no example of its class can be loaded: a bad row\. Leave the class out"
    with pytest.raises(ValueError, match=message):
        RowLoader(np.arange(12), lambda row: unless_bad(5), np.zeros(12, int), on_error="skip").batch([5])


def test_what_cannot_be_loaded_is_left_out_of_loadable_batches():
    found = list(rows.loadable(np.arange(12), unless_bad, 12, batch_size=4, start=4))
    assert [part.tolist() for _, part in found] == [[4, 7], [8, 9, 10, 11]]
    assert list(rows.loadable(Source(), None, 12, batch_size=3, start=0)) == []


def test_nan_on_disk_is_found_when_it_is_read(tmp_path):
    array = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", "float32", (12, 2))
    array[7] = np.nan
    with pytest.raises(ValueError, match="Received NaN in the data, first in row 7"):
        RowLoader(np.load(tmp_path / "x.npy", mmap_mode="r"), None, LABELS).batch(ROWS)


MASKED = np.ma.masked_equal(np.arange(12), 3)


@pytest.mark.parametrize(
    "data", [np.full(12, np.nan), np.arange(11), (np.arange(12), np.arange(11)), 5, [[1], [1, 2]], MASKED]
)
def test_data_that_do_not_fit_are_refused_as_by_tf_data(data):
    messages = []
    for read in (streams.arrays, rows.columns):
        with pytest.raises(ValueError, match="Received") as raised:
            read(data, 12)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
