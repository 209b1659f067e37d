"""Where examples come from: arrays, structures of arrays, files, sources with random access."""

import time

import numpy as np
import psutil
import pytest
import tensorflow as tf

from tfdml import samplers
from tfdml.datasets import streams

LABELS = np.repeat(np.arange(6), 5)
GROUP = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2)


def rows_of(dataset, steps):
    return np.stack([rows.numpy() for rows in dataset.take(steps)])


@pytest.mark.parametrize("as_keys", [np.array, tf.constant], ids=["array", "tensor"])
def test_keys_may_be_a_list_an_array_or_a_tensor(as_keys):
    keys = [f"{row}.png" for row in range(30)]
    np.testing.assert_array_equal(streams.arrays(keys, 30), streams.arrays(as_keys(keys), 30))


def test_a_key_that_loads_slowly_still_comes_in_its_place():
    def slow(key):
        time.sleep(0.01 * (key % 3))
        return np.float32(key)

    def load(key):
        return tf.ensure_shape(tf.numpy_function(slow, [key], tf.float32), ())

    dataset = GROUP.batches(np.arange(30), LABELS, load=load)
    np.testing.assert_array_equal(rows_of(dataset.map(lambda x, _: x), 8), GROUP.index_batches(LABELS)[:8])


def test_keys_and_loaded_examples_may_be_structures():
    keys = {"number": np.arange(30), "text": [str(row) for row in range(30)]}

    def load(key):
        return {"row": key["number"], "same": tf.strings.to_number(key["text"], tf.int64)}

    examples, labels = next(iter(GROUP.batches(keys, LABELS, load=load)))
    np.testing.assert_array_equal(examples["row"], examples["same"])
    np.testing.assert_array_equal(labels, LABELS[examples["row"].numpy()])


def test_a_load_that_chooses_by_value_is_compiled_into_the_graph():
    def load(key):
        if key % 2 == 0:
            return key
        return -key

    examples, _ = next(iter(GROUP.batches(np.arange(30), LABELS, load=load)))
    rows = GROUP.index_batches(LABELS)[0]
    np.testing.assert_array_equal(examples, np.where(rows % 2, -rows, rows))


def test_dicts_and_tuples_of_arrays_keep_their_structure():
    data = {"image": np.random.default_rng(0).normal(size=(30, 2)), "pair": (np.arange(30), list("abcdef") * 5)}
    examples, _ = next(iter(GROUP.batches(data, LABELS)))
    rows = GROUP.index_batches(LABELS)[0]
    np.testing.assert_array_equal(examples["image"], data["image"][rows])
    np.testing.assert_array_equal(examples["pair"][0], rows)
    assert [text.decode() for text in examples["pair"][1].numpy()] == [data["pair"][1][row] for row in rows]


@pytest.mark.parametrize("width", [0, 1, 100_000], ids=["empty", "small", "large"])
def test_examples_of_any_size_are_gathered_as_they_are(width):
    data = np.arange(30, dtype=np.int64)[:, None] + np.zeros((1, width), np.int64)
    rows = GROUP.index_batches(LABELS)[:3]
    examples = rows_of(GROUP.batches(data, LABELS).map(lambda x, _: x), 3)
    np.testing.assert_array_equal(examples, data[rows])


def test_changing_an_array_later_does_not_change_the_batches():
    data = np.arange(30)
    dataset = GROUP.batches(data, LABELS)
    data[:] = -1
    assert next(iter(dataset))[0].numpy().min() >= 0


def test_iterating_makes_no_second_copy_of_the_data():
    data = tf.zeros((2**21, 128), tf.uint8)
    dataset = GROUP.batches(data, np.arange(2**21) % 1000)
    before = resident_bytes()
    assert next(iter(dataset))[0].shape == (6, 128)
    assert resident_bytes() - before < 2**27


def resident_bytes():
    return psutil.Process().memory_info().rss


@pytest.mark.parametrize("load", [None, lambda key: key], ids=["array", "keys"])
def test_batches_are_split_over_replicas_without_being_dealt_out_again(load):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    dataset = GROUP.batches(np.arange(30), LABELS, load=load)
    off = tf.data.experimental.AutoShardPolicy.OFF
    assert dataset.options().experimental_distribute.auto_shard_policy is off
    seen = [x.numpy() for x, _ in strategy.experimental_distribute_dataset(dataset.take(4))]
    np.testing.assert_array_equal(seen, GROUP.index_batches(LABELS)[:4])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_nan_images_are_refused_at_the_call(dtype):
    images = np.ones((len(LABELS), 4, 4, 1), dtype)
    images[[17, 23], 0, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in the data, first in row 17"):
        GROUP.batches(images, LABELS)
