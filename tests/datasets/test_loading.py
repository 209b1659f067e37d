"""Loading: prefetching, sources, rows that cannot be loaded, several machines."""

import functools
import time

import numpy as np
import pytest
import tensorflow as tf

from tfdml import samplers

LABELS = np.repeat(np.arange(6), 5)
ROWS = np.arange(30)
GROUP = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2)
PAIRS = samplers.PairSampler(pairs_per_batch=4, positive_fraction=0.5)


class Source:
    """A source that is not a list; the images of its records have several shapes."""

    def __init__(self, broken=None):
        self.broken = broken
        self.read = []

    def __len__(self):
        return len(LABELS)

    def __getitem__(self, row):
        if row == self.broken:
            raise OSError("the disk is gone")
        self.read.append(row)
        return {"image": np.full((2 + row % 3, 4, 1), row, np.uint8), "bytes": b"a\0%d\0" % row, "name": f"ä{row}"}


class ManyAtOnce(Source):
    def __getitems__(self, rows):
        self.calls = [*getattr(self, "calls", []), rows]
        return [self[row] for row in rows]


def load_record(record):
    return tf.image.resize(record["image"], (2, 2))[..., 0], record["bytes"], record["name"]


def load_unless(bad):
    """Load a number, but not a bad one."""

    def load(key):
        tf.debugging.assert_equal(tf.reduce_any(key == tf.constant(bad, tf.int64)), False)
        return key

    return load


def batches_of(dataset, steps):
    return [(examples.numpy(), labels.numpy()) for examples, labels in dataset.take(steps)]


def rows_of(sampler, steps, **place):
    return sampler.index_batches(LABELS, **place)[:steps]


@pytest.mark.parametrize(("kind", "prefetch"), [("keys", 4), ("source", 1)])
def test_no_more_than_prefetch_batches_are_loaded_ahead(kind, prefetch):
    source = Source()

    def count(key):
        source.read.append(key)
        return key

    def load(key):
        return tf.ensure_shape(tf.numpy_function(count, [key], tf.int64), ())

    if kind == "keys":
        dataset = GROUP.batches(ROWS, LABELS, load=load, prefetch=prefetch)
    else:
        dataset = GROUP.batches(source, LABELS, load=load_record, prefetch=prefetch)
    source.read.clear()
    batches = iter(dataset)
    for taken in (prefetch, prefetch + 1):  # The streams open one after another, with the first batches.
        for _ in range(prefetch if taken == prefetch else 1):
            next(batches)
        ahead = (taken + prefetch) * GROUP.batch_size
        deadline = time.monotonic() + 10
        while len(source.read) < ahead and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        assert len(source.read) == ahead


@pytest.mark.parametrize(
    ("source", "place"),
    [(Source(), {}), (ManyAtOnce(), dict(start=3, num_shards=2, shard_index=1))],
    ids=["one", "many"],
)
def test_the_records_of_a_source_are_those_of_the_rows(source, place):
    dataset = GROUP.batches(source, LABELS, load=load_record, **place)
    for row, ((image, data, name), labels) in zip(rows_of(GROUP, 8, **place), dataset.take(8), strict=True):
        np.testing.assert_array_equal(image, np.broadcast_to(row[:, None, None], (6, 2, 2)))
        assert data.numpy().tolist() == [b"a\0%d\0" % number for number in row]
        assert [text.decode() for text in name.numpy()] == [f"ä{number}" for number in row]
        np.testing.assert_array_equal(labels, LABELS[row])
        if isinstance(source, ManyAtOnce):  # It is asked once per batch.
            assert row.tolist() in source.calls


def test_records_without_load_are_the_examples_and_their_shape_is_known():
    class Vectors(Source):
        def __getitem__(self, row):
            return np.full(3, row, np.float32), row

    dataset = GROUP.batches(Vectors(), LABELS)
    assert dataset.element_spec[0] == (tf.TensorSpec((6, 3), tf.float32), tf.TensorSpec((6,), tf.int64))
    (vectors, numbers), _ = next(iter(dataset))
    np.testing.assert_array_equal(numbers, rows_of(GROUP, 1)[0])
    np.testing.assert_array_equal(vectors[:, 2], numbers)


FORM = "expected an array, a tuple or dict of arrays, or a source"


@pytest.mark.parametrize(
    ("data", "labels", "options", "message"),
    [
        (object(), LABELS, {}, FORM),
        (tf.data.Dataset.range(30), LABELS, {}, FORM),
        ({"key": object()}, LABELS, {}, FORM),
        (Source(), LABELS[:10], {}, "Received a source of 30 rows and 10 labels"),
        (ROWS, LABELS, {"on_error": "drop"}, "Received on_error='drop', expected 'error', 'skip' or a function"),
        (ROWS, LABELS, {"prefetch": 0}, "Received prefetch=0, expected a whole number of at least 1"),
        (ROWS, LABELS, {"load": "png"}, "Received load='png', expected a function of one key"),
        (ROWS, LABELS, {"augment": 3}, "Received augment=3, expected a function of one example and a seed, or None"),
    ],
)
def test_data_and_options_that_do_not_fit_are_refused_at_the_call(data, labels, options, message):
    with pytest.raises(ValueError, match=message):
        samplers.GroupSampler(classes_per_batch=2, examples_per_class=2).batches(data, labels, **options)


@pytest.mark.parametrize("data", [ROWS[:29], {"left": ROWS, "right": np.zeros((29, 2))}, 5])
def test_data_of_another_length_than_labels_are_refused_at_the_call(data):
    with pytest.raises(ValueError, match=r"Received data of shape \((29,.*)?\) and 30 labels\. Expected one label"):
        GROUP.batches(data, LABELS)


def test_a_file_that_cannot_be_decoded_is_named(tmp_path):
    paths = [str(tmp_path / f"{row}.png") for row in ROWS]
    for path in paths:
        tf.io.write_file(path, tf.io.encode_png(tf.zeros((2, 2, 1), tf.uint8)))
    (tmp_path / "13.png").write_bytes(b"no image")
    dataset = GROUP.batches(paths, LABELS, load=lambda path: tf.io.decode_png(tf.io.read_file(path), channels=1))
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        batches_of(dataset, 40)
    assert f'Received row 13 (label 2, key \\"{paths[13]}\\"), which cannot be loaded' in raised.value.message


def test_a_record_that_cannot_be_read_is_named():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Received row 7 \(label 1\), which cannot be loaded"):
        for _ in GROUP.batches(Source(broken=7), LABELS, load=load_record).take(40):
            pass


def test_an_error_comes_at_once_even_if_nothing_can_be_loaded():
    with pytest.raises(tf.errors.InvalidArgumentError, match="which cannot be loaded"):
        next(iter(GROUP.batches(ROWS, LABELS, load=load_unless(ROWS))))


@pytest.mark.parametrize("on_error", ["error", pytest.param("skip", marks=pytest.mark.slow)])
def test_examples_of_different_shapes_are_an_error_that_names_one(on_error):
    dataset = GROUP.batches(
        ROWS, LABELS, load=lambda key: tf.zeros([3 + tf.cast(key == 11, tf.int32)]), on_error=on_error
    )
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"of shape \[[34]\] and \[[34]\], the latter from row \d+"
    ):
        batches_of(dataset, 40)


BAD = [3, 12, 13]
SKIPPED = []


@functools.cache
def skipping(sampler):
    """A dataset that skips the rows BAD, and adds them to SKIPPED."""
    return sampler.batches(ROWS, LABELS, load=load_unless(BAD), on_error=SKIPPED.append)


@functools.cache
def replaced(sampler):
    """Its first 100 batches."""
    return batches_of(skipping(sampler), 100)


@pytest.mark.parametrize("sampler", [GROUP, PAIRS], ids=["group", "pairs"])
def test_what_is_skipped_is_replaced_inside_its_class_and_nothing_else_changes(sampler):
    SKIPPED.clear()
    drawn = rows_of(sampler, 40)
    for rows, (loaded, labels) in zip(drawn, batches_of(skipping(sampler), 40), strict=True):
        is_bad = np.isin(rows, BAD)
        np.testing.assert_array_equal(loaded[~is_bad], rows[~is_bad])
        np.testing.assert_array_equal(LABELS[loaded], LABELS[rows])
        np.testing.assert_array_equal(labels, LABELS[rows])
        assert not np.isin(loaded, BAD).any()
    assert set(SKIPPED) == set(BAD)
    assert len(SKIPPED) >= np.isin(drawn, BAD).sum()


def test_a_replacement_is_not_in_the_batch_already_if_the_class_has_another():
    labels = np.repeat(np.arange(2), 4)
    sampler = samplers.GroupSampler(classes_per_batch=2, examples_per_class=3)
    for loaded, _ in batches_of(sampler.batches(np.arange(8), labels, load=load_unless([2]), on_error="skip"), 30):
        assert len(set(loaded)) == 6


def test_every_other_example_of_the_class_can_be_the_replacement():
    replacements = {
        int(loaded[place])
        for rows, (loaded, _) in zip(rows_of(GROUP, 100), replaced(GROUP), strict=True)
        for place in np.flatnonzero(rows == 3)
    }
    assert replacements == {0, 1, 2, 4}


def test_replacements_are_the_same_in_a_shard_and_after_resuming():
    place = dict(start=10, num_shards=2, shard_index=1)
    resumed = GROUP.batches(ROWS, LABELS, load=load_unless(BAD), on_error="skip", prefetch=2, **place)
    np.testing.assert_array_equal([x for x, _ in replaced(GROUP)[21::2][:15]], [x for x, _ in batches_of(resumed, 15)])


def test_records_that_cannot_be_read_are_skipped_too():
    passed = []
    dataset = GROUP.batches(Source(broken=7), LABELS, load=lambda record: record["name"], on_error=passed.append)
    for names, labels in batches_of(dataset, 20):
        np.testing.assert_array_equal(LABELS[[int(name.decode()[1:]) for name in names]], labels)
    assert set(passed) == {7}


def test_a_class_of_which_nothing_can_be_loaded_is_an_error_that_names_it():
    dataset = GROUP.batches(ROWS, LABELS, load=load_unless([10, 11, 12, 13, 14]), on_error="skip")
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"\(label 2, key \d+\), and no example of its class can be"
    ):
        batches_of(dataset, 40)


def test_random_augmentation_differs_from_batch_to_batch():
    tf.random.set_seed(0)
    found = batches_of(GROUP.batches(ROWS, LABELS, load=lambda key: tf.random.uniform(())), 8)
    assert len({float(x) for batch, _ in found for x in batch}) == 8 * GROUP.batch_size
