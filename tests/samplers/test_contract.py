"""What every sampler promises. Adding a sampler is adding a row."""

import dataclasses
import functools
import pickle
import re
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tfdml import pairs, samplers
from tfdml.samplers import base, draws

UNEVEN = np.repeat(np.arange(11), [4, 4, 5, 6, 4, 9, 30, 4, 7, 12, 5])
LABELS = np.random.default_rng(0).permutation(UNEVEN)

IDS = np.array([-(2**62), -7, 0, 3, 2**24, 2**24 + 1, 2**53, 2**53 + 1, 2**62 - 1, 2**62, 2**62 + 1])


def planted_centers():
    """Planted centers of the classes that the tests know, the same for a class k and IDS[k]."""
    known = samplers.ClassCenters(np.append(np.arange(64), IDS), dim=3)
    embeddings = np.random.default_rng(2).standard_normal((64, 3))
    embeddings[0] = embeddings[2]  # Since IDS[2] is 0.
    known.refresh(np.concatenate([embeddings, embeddings[:11]]), np.append(np.arange(64), IDS))
    return known


CENTERS = planted_centers()
SUPER_CLASSES = {label: k // 3 for k in range(11) for label in (k, int(IDS[k]))}
ENTRIES = np.random.default_rng(3).permutation(90)[:80].reshape(40, 2)
GROUP = samplers.GroupSampler(classes_per_batch=4, examples_per_class=3, seed=5)
UNIFORM = samplers.UniformSampler(batch_size=12, seed=5)


def batch(rows):
    """All rows of a batch."""
    return [rows]


class Row(NamedTuple):
    """A sampler of batches of 12 rows, and its traits.

    Attributes:
        sampler: the sampler.
        distinct: function of the rows of a batch that returns those parts of it in which no row comes twice.
        pairing: the pairing that fits its batches.
        by_class: whether a batch is `classes_per_batch` different classes with `examples_per_class` adjacent examples.
        printed: whether the sampler is equal to its repr evaluated, as it holds settings alone.
        by_row: whether the label of a row in a batch is that of the example, given to `batches`.
    """

    sampler: samplers.Sampler
    distinct: Callable = batch
    pairing: Callable = pairs.all_pairs
    by_class: bool = False
    printed: bool = True
    by_row: bool = True


def by_class(make, **settings):
    return Row(make(**{"classes_per_batch": 4, "examples_per_class": 3, "seed": 5, **settings}), by_class=True)


hard_class = functools.partial(samplers.HardClassSampler, centers=CENTERS)

SAMPLERS = {
    "group": Row(GROUP, by_class=True),
    "pk": by_class(samplers.PKSampler),
    "hard class": by_class(hard_class)._replace(printed=False),
    "pair": Row(
        samplers.PairSampler(pairs_per_batch=6, positive_fraction=0.5, seed=5),
        distinct=lambda rows: rows.reshape(-1, 2),
        pairing=pairs.consecutive_pairs,
    ),
    "uniform": Row(UNIFORM),
    "episode": Row(samplers.EpisodeSampler(ways=4, shots=1, queries=2, seed=5)),
    "mixed": Row(samplers.MixedSampler(samplers=(GROUP, UNIFORM), weights=(1, 2), seed=5)),
    "hierarchical": Row(
        samplers.HierarchicalSampler(
            super_classes=SUPER_CLASSES,
            super_classes_per_batch=2,
            classes_per_super_class=2,
            examples_per_class=3,
            seed=5,
        ),
        printed=False,
    ),
    "listed": Row(
        samplers.ListSampler(entries=ENTRIES, labels=np.arange(40) % 2, sampler=samplers.UniformSampler(batch_size=6)),
        distinct=lambda rows: rows.reshape(-1, 2),
        pairing=pairs.labeled_pairs,
        printed=False,
        by_row=False,
    ),
    "mined": Row(
        samplers.MinedSampler(anchors_per_batch=4, pairs=samplers.MinedPairs(LABELS), seed=5),
        distinct=lambda rows: [rows[::3]],  # Two anchors may have a positive or a negative in common.
        printed=False,
    ),
}
SIZES = {
    "group of all classes": by_class(samplers.GroupSampler, classes_per_batch=11, examples_per_class=4),
    "group of one class": by_class(samplers.GroupSampler, classes_per_batch=1, examples_per_class=4),
    "group of single examples": by_class(samplers.GroupSampler, classes_per_batch=5, examples_per_class=1),
    "pk of all classes": by_class(samplers.PKSampler, classes_per_batch=11, examples_per_class=4),
    "pk of one class": by_class(samplers.PKSampler, classes_per_batch=1, examples_per_class=4),
}
CLASSES = {"group": samplers.GroupSampler, "pk": samplers.PKSampler, "hard class": hard_class}


def with_trait(rows, trait):
    return {name: row for name, row in rows.items() if getattr(row, trait)}


def parametrized(rows, names="row"):
    return pytest.mark.parametrize(names, rows.values(), ids=rows)


every_sampler = parametrized(SAMPLERS)
every_sampler_of_any_size = parametrized(SAMPLERS | SIZES)
every_sampler_by_class = parametrized(with_trait(SAMPLERS | SIZES, "by_class"))
every_sampler_by_row = parametrized(with_trait(SAMPLERS, "by_row"))
every_printed_sampler = parametrized(with_trait(SAMPLERS, "printed"))
every_class = parametrized(CLASSES, "make")


def draw(sampler, steps, labels=LABELS):
    """The batches of some steps, drawn without a stream."""
    return sampler.draw(sampler.prepare(labels), np.array(steps))


@functools.cache
def index_batches(sampler):
    return sampler.index_batches(LABELS)


@functools.cache
def stream(sampler):
    """The first 210 batches of a sampler over LABELS, more than three blocks."""
    return index_batches(sampler)[:210]


IMAGES = np.random.default_rng(1).integers(0, 256, (len(LABELS), 5, 4, 1), np.uint8)


@functools.cache
def examples(sampler):
    """Dataset of images and labels of one shard, with the class ids of IDS."""
    return sampler.batches(IMAGES, IDS[LABELS], start=7, num_shards=4, shard_index=2)


@every_sampler_of_any_size
def test_batches_have_the_size_and_type_they_promise(row):
    assert len(index_batches(row.sampler)) > 10**15
    rows = stream(row.sampler)
    assert rows.shape == (210, row.sampler.batch_size)
    assert rows.dtype == np.int64
    assert rows.min() >= 0
    assert rows.max() < len(LABELS)


@every_sampler_of_any_size
def test_no_row_comes_twice_where_rows_are_drawn_without_replacement(row):
    for rows in stream(row.sampler):
        for part in row.distinct(rows):
            assert len(set(part)) == len(part)


@every_sampler_by_class
def test_a_batch_is_different_classes_one_after_another_with_all_their_examples(row):
    sampler = row.sampler
    for rows in stream(sampler):
        classes = LABELS[rows].reshape(sampler.classes_per_batch, sampler.examples_per_class)
        assert (classes == classes[:, :1]).all()
        assert len(set(classes[:, 0])) == sampler.classes_per_batch


@every_sampler
def test_passes_random_access_and_a_copy_in_another_process_give_the_same_batches(row):
    batches = index_batches(row.sampler)
    np.testing.assert_array_equal(stream(row.sampler)[:70], list(islice(batches, 70)))
    copy = pickle.loads(pickle.dumps(batches))
    for t in (130, 0, 61, 60):
        np.testing.assert_array_equal(copy[t], stream(row.sampler)[t], strict=True)


@every_sampler
def test_a_batch_depends_on_its_step_alone(row):
    steps = [130, 0, 64, 1, 209, 63]
    np.testing.assert_array_equal(draw(row.sampler, steps), stream(row.sampler)[steps])
    far = draw(row.sampler, [10**15, 10**15 + 1])
    np.testing.assert_array_equal(far[1:], draw(row.sampler, [10**15 + 1]))


@every_sampler
def test_a_shard_takes_every_third_batch_from_its_start_on_whatever_the_block(row, monkeypatch):
    monkeypatch.setattr(base, "_BLOCK", 5)
    shard = row.sampler.index_batches(LABELS, start=17, num_shards=3, shard_index=1)[:50]
    np.testing.assert_array_equal(shard, stream(row.sampler)[17 * 3 + 1 :: 3][:50])


@every_sampler
def test_streams_and_loading_are_those_of_the_base_class(row):
    """So what follows for one sampler alone, GROUP, holds for all."""
    for method in ("index_batches", *(["batches"] if row.by_row else [])):
        assert getattr(type(row.sampler), method) is getattr(samplers.Sampler, method)


def test_steps_far_out_are_reached_at_once():
    far = GROUP.index_batches(LABELS, start=10**15)[:3]
    np.testing.assert_array_equal(far, draw(GROUP, [10**15, 10**15 + 1, 10**15 + 2]))


THREE_CLASSES = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2, seed=1)
SIX_ROWS = samplers.UniformSampler(batch_size=6, seed=1)
RELEASED = {
    "group": (THREE_CLASSES, [[3, 4, 9, 8, 7, 6], [1, 2, 9, 11, 6, 7], [0, 2, 5, 4, 10, 11]]),
    "pk": (
        samplers.PKSampler(classes_per_batch=3, examples_per_class=2, seed=1),
        [[0, 1, 7, 6, 3, 5], [8, 11, 1, 0, 7, 6], [0, 1, 7, 6, 11, 10]],
    ),
    "pair": (
        samplers.PairSampler(pairs_per_batch=3, positive_fraction=0.5, seed=1),
        [[0, 1, 7, 6, 1, 0], [8, 10, 11, 7, 7, 4], [7, 3, 11, 8, 9, 8]],
    ),
    "uniform": (SIX_ROWS, [[9, 6, 11, 0, 3, 8], [0, 1, 7, 6, 11, 9], [0, 4, 2, 9, 6, 8]]),
    "episode": (
        samplers.EpisodeSampler(ways=2, shots=1, queries=2, seed=1),
        [[1, 3, 0, 2, 4, 5], [1, 9, 0, 2, 11, 8], [1, 5, 2, 0, 4, 3]],
    ),
    "mixed": (
        samplers.MixedSampler(samplers=(THREE_CLASSES, SIX_ROWS), weights=(1, 2), seed=1),
        [[3, 4, 9, 8, 7, 6], [1, 2, 9, 11, 6, 7], [0, 4, 2, 9, 6, 8]],
    ),
    "hierarchical": (
        samplers.HierarchicalSampler(
            super_classes=[0, 0, 1, 1],
            super_classes_per_batch=2,
            classes_per_super_class=1,
            examples_per_class=2,
            seed=1,
        ),
        [[10, 8, 0, 2], [4, 5, 7, 6], [3, 4, 11, 9]],
    ),
}


@pytest.mark.parametrize(("sampler", "rows"), RELEASED.values(), ids=RELEASED)
def test_batches_stay_the_same_in_every_process_and_from_one_release_to_the_next(sampler, rows):
    """The numbers were drawn by an earlier release, in another process."""
    assert draw(sampler, range(3), np.repeat([0, 1, 2, 3], [3, 3, 2, 4])).tolist() == rows


@pytest.mark.parametrize("seed", [0, -3, 2**40 + 5, 2**63 - 1])
def test_random_bits_are_those_of_philox_in_tensorflow(seed):
    steps = np.array([0, 1, -1, 2**50, -(2**63)])
    expected = [
        tf.random.stateless_uniform((1001,), [seed, step], minval=None, maxval=None, dtype=tf.int64, alg="philox")
        for step in steps.tolist()
    ]
    np.testing.assert_array_equal(draws.random_bits(seed, steps, 1001), expected)
    np.testing.assert_array_equal(draws.random_bits(seed, np.tile(steps, 20), 1001)[-5:], expected)  # in blocks


@every_class
def test_every_int64_is_a_seed_of_its_own(make):
    seeds = [0, 1, 2**31, 2**32, 2**32 + 1, 2**63 - 1, -1, -(2**63), np.int64(-2)]
    made = [make(classes_per_batch=4, examples_per_class=3, seed=seed) for seed in seeds]
    batches = {str(draw(sampler, range(9))) for sampler in made}
    assert len(batches) == len(seeds)


@every_sampler_by_row
def test_examples_and_labels_are_those_of_the_rows_and_class_ids_keep_every_digit(row):
    dataset = examples(row.sampler)
    assert dataset.element_spec == (tf.TensorSpec((12, 5, 4, 1), tf.uint8), tf.TensorSpec((12,), tf.int64))
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    drawn = stream(row.sampler)[7 * 4 + 2 :: 4][:20]  # The order of the classes is all that counts.
    for rows, (images, labels) in zip(drawn, dataset.take(20), strict=True):
        np.testing.assert_array_equal(images, IMAGES[rows])
        np.testing.assert_array_equal(labels, IDS[LABELS[rows]])


@every_sampler
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64])
def test_any_integer_type_and_a_column_of_labels_draw_the_same(row, dtype):
    expected = tf.nest.flatten(row.sampler.prepare(LABELS))
    for labels in (LABELS.astype(dtype)[:, None], tf.constant(LABELS, dtype), LABELS.astype(dtype).tolist()):
        for part, found in zip(expected, tf.nest.flatten(row.sampler.prepare(labels)), strict=True):
            np.testing.assert_array_equal(part, found, strict=True)


@every_sampler
def test_the_pairing_fits_the_batches(row):
    assert row.sampler.pairing is row.pairing


@every_printed_sampler
def test_settings_are_frozen_and_equal_settings_are_equal(row):
    with pytest.raises(AttributeError, match="cannot assign"):
        row.sampler.seed = 3
    copy = eval(repr(row.sampler), vars(samplers))
    assert copy == row.sampler
    assert hash(copy) == hash(row.sampler)


@every_class
def test_settings_go_by_their_names(make):
    with pytest.raises(TypeError, match="positional"):
        make(4, 3)


@every_class
def test_dropped_classes_never_come(make):
    sampler = make(classes_per_batch=4, examples_per_class=6)
    labels = set(LABELS[draw(sampler, range(50))].ravel())
    assert labels == {3, 5, 6, 8, 9}


@every_class
def test_short_classes_can_be_an_error_that_names_the_shortest(make):
    sampler = make(classes_per_batch=2, examples_per_class=3, short_classes="error")
    message = "Received examples_per_class=3, but 2 of 3 classes have fewer examples (class 7 has 1). Lower"
    with pytest.raises(ValueError, match=re.escape(message)):
        sampler.index_batches([5, 5, 7, 9, 9, 9])
    assert draw(sampler, [0, 1], [5, 5, 5, 9, 9, 9]).shape == (2, 6)


@every_class
def test_repeated_examples_of_a_short_class_come_as_evenly_as_they_can(make):
    labels = np.repeat([0, 1, 2, 3], [1, 2, 3, 9])
    sampler = make(classes_per_batch=4, examples_per_class=5, short_classes="repeat")
    extra = np.zeros(len(labels))
    rows = sampler.index_batches(labels)[:300]
    for batch in rows:
        times = np.bincount(batch, minlength=len(labels))
        assert times[0] == 5
        assert sorted(times[1:3]) == [2, 3]
        assert sorted(times[3:6]) == [1, 2, 2]
        assert sorted(times[6:]) == [0] * 4 + [1] * 5
        extra += times
    assert abs(extra[1] - extra[2]) < 4.5 * np.sqrt(300)
    assert np.ptp(extra[3:6]) < 4.5 * np.sqrt(300)


@every_class
def test_repeating_changes_nothing_where_no_class_is_short(make):
    settings = dict(classes_per_batch=4, examples_per_class=3)
    repeating = make(**settings, short_classes="repeat")
    np.testing.assert_array_equal(draw(repeating, range(20)), draw(make(**settings), range(20)))


@dataclasses.dataclass(frozen=True)
class Flat(samplers.Sampler):
    """A sampler whose draws have one dimension too few."""

    batch_size: int = 4

    def prepare(self, labels):
        return labels

    def draw(self, prepared, steps):
        return steps


def test_a_sampler_that_is_not_whole_is_named():
    with pytest.raises(
        ValueError, match=r"draws of shape \(1,\) and type int64 for one step from Flat, .* \(block, batch_size=4\)"
    ):
        Flat().index_batches(np.arange(8) // 2)
    with pytest.raises(NotImplementedError, match=r"Sampler has no prepare\(labels\)"):
        samplers.Sampler().index_batches([0, 1])
