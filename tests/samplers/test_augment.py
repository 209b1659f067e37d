"""`augment=` of `Sampler.batches`: its seeds are a function of the sampler's seed, the step and the place."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.samplers.sources import Source
from tfdml import samplers
from tfdml.datasets import LabeledSet, RandomCrop, compose

LABELS = np.repeat(np.arange(6), 5)
ROWS = np.arange(30)
GROUP = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2, seed=7)
IMAGES = np.random.default_rng(0).integers(0, 256, (30, 8, 9, 3), np.uint8)
STEPS = 12


def with_seed(example, seed):
    return example, seed


def seeds_of(sampler=GROUP, data=ROWS, steps=STEPS, **options):
    """Rows `(steps, batch)` and seeds `(steps, batch, 2)`."""
    found = [x for x, _ in sampler.batches(data, LABELS, augment=with_seed, **options).take(steps)]
    return np.stack([rows for rows, _ in found]), np.stack([seeds for _, seeds in found])


def test_every_place_of_every_step_has_its_own_seed_and_the_rows_stay():
    rows, seeds = seeds_of()
    expected = GROUP.index_batches(LABELS)[:STEPS]
    np.testing.assert_array_equal(rows, expected)
    assert seeds.dtype == np.int64
    assert len(np.unique(seeds)) == seeds.size == STEPS * 6 * 2


@pytest.mark.slow
def test_a_resumed_stream_and_shards_repeat_the_seeds():
    rows, seeds = seeds_of()
    for start, shards, index in ((5, 1, 0), (0, 2, 1), (1, 3, 2)):
        there = seeds_of(start=start, num_shards=shards, shard_index=index, prefetch=2, steps=2)
        np.testing.assert_array_equal(there[0], rows[start * shards + index :: shards][:2])
        np.testing.assert_array_equal(there[1], seeds[start * shards + index :: shards][:2])


@pytest.mark.slow
def test_seeds_do_not_depend_on_the_data_and_follow_the_seed_of_the_sampler():
    seeds = seeds_of()[1]
    for data, options in ((IMAGES[..., 0], {}), (ROWS, {"load": lambda row: row + 1}), (Source(30, np.int64), {})):
        np.testing.assert_array_equal(seeds_of(data=data, **options)[1], seeds)
    other = dataclasses.replace(GROUP, seed=8)
    assert not np.isin(seeds_of(other)[1], seeds).any()
    rows_only = samplers.UniformSampler(batch_size=6, seed=7)
    np.testing.assert_array_equal(seeds_of(rows_only)[1], seeds)


@pytest.mark.slow
def test_a_row_that_replaces_another_takes_the_seed_of_its_place():
    def load(row):
        tf.debugging.assert_equal(tf.reduce_any(row == tf.constant([3, 12, 13], tf.int64)), False)
        return row

    rows, seeds = seeds_of()
    replaced, found = seeds_of(load=load, on_error="skip")
    assert (replaced != rows).any()
    np.testing.assert_array_equal(found, seeds)
    again, repeated = seeds_of(load=load, on_error="skip", start=4, steps=4)
    np.testing.assert_array_equal(again, replaced[4:8])
    np.testing.assert_array_equal(repeated, found[4:8])


@pytest.mark.parametrize(("data", "row"), [(ROWS, r"row 11 \(label 2, key 11\)"), (IMAGES, r"row 11 \(label 2\)")])
def test_a_row_whose_augmentation_fails_is_named_by_its_key_but_not_by_its_pixels(data, row):
    def fail(example, seed):
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_any(example != data[11]), ["no"])]):
            return tf.identity(example)

    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Received {row}, which cannot be loaded"):
        for _ in GROUP.batches(data, LABELS, augment=fail).take(40):
            pass


@pytest.mark.slow
def test_crops_of_images_in_memory_are_those_of_their_seeds():
    crop = RandomCrop(6)
    batches = GROUP.batches(IMAGES, LABELS, augment=crop)
    assert batches.element_spec[0] == tf.TensorSpec((6, 6, 6, 3), tf.uint8)
    rows, seeds = seeds_of()
    for (images, labels), row, seed in zip(batches.take(STEPS), rows, seeds, strict=True):
        np.testing.assert_array_equal(labels, LABELS[row])
        np.testing.assert_array_equal(images, [crop(IMAGES[r], s) for r, s in zip(row, seed, strict=True)])


def test_records_of_several_shapes_may_be_cropped_to_one():
    ragged = Source(30, lambda row: IMAGES[row, : 6 + row % 3])
    images, _ = next(iter(GROUP.batches(ragged, LABELS, augment=RandomCrop(5))))
    assert images.shape == (6, 5, 5, 3)


@pytest.mark.slow
def test_a_labeled_set_is_augmented_after_it_is_loaded():
    part = LabeledSet(images=IMAGES, labels=LABELS, class_names=tuple("abcdef"), load=lambda image: image[:7])
    images, _ = next(iter(GROUP.batches(part, augment=RandomCrop(7, mirror=False))))
    row, seed = (part[0] for part in seeds_of())
    np.testing.assert_array_equal(images[0], RandomCrop(7, mirror=False)(IMAGES[row[0], :7], seed[0]))
    uncropped, _ = next(iter(GROUP.batches(part, load=lambda image: image, augment=RandomCrop(8))))
    assert uncropped.shape == (6, 8, 8, 3)


def test_parts_of_a_chain_have_their_own_seeds():
    def note(example, seed):
        return (*example, seed)

    parts = compose(note, note, note)((), tf.constant([5, 6], tf.int64))
    assert len({tuple(seed.numpy()) for seed in parts}) == 3
    np.testing.assert_array_equal(compose(note, compose(note))((), tf.constant([5, 6], tf.int64))[0], parts[0])
    assert compose()("example", tf.constant([5, 6], tf.int64)) == "example"
