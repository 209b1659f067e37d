"""What every sampler promises. Adding a sampler is adding a row."""

import functools
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import pairs, samplers
from tfdml.samplers import base

UNEVEN = np.repeat(np.arange(11), [4, 4, 5, 6, 4, 9, 30, 4, 7, 12, 5])
LABELS = np.random.default_rng(0).permutation(UNEVEN)

IDS = np.array([-(2**62), -7, 0, 3, 2**24, 2**24 + 1, 2**53, 2**53 + 1, 2**62 - 1, 2**62, 2**62 + 1])


@functools.cache
def centres():
    """Planted centres of the classes that the tests know, alike for a class k and IDS[k]."""
    known = samplers.ClassCentres(np.append(np.arange(64), IDS), dim=3)
    embeddings = np.random.default_rng(2).standard_normal((64, 3))
    embeddings[0] = embeddings[2]  # Since IDS[2] is 0.
    known.refresh(np.concatenate([embeddings, embeddings[:11]]), np.append(np.arange(64), IDS))
    return known


SUPER_CLASSES = {label: k // 3 for k in range(11) for label in (k, int(IDS[k]))}
CLASSES = {
    "group": samplers.GroupSampler,
    "pk": samplers.PKSampler,
    "hard class": functools.partial(samplers.HardClassSampler, centres=centres()),
}
GROUPED = {name: make(classes_per_batch=4, examples_per_class=3, seed=5) for name, make in CLASSES.items()}
PRINTED = {
    "group": GROUPED["group"],
    "pk": GROUPED["pk"],
    "episode": samplers.EpisodeSampler(ways=4, shots=1, queries=2, seed=5),
    "mixed": samplers.MixedSampler(
        samplers=(GROUPED["group"], samplers.UniformSampler(batch_size=12, seed=5)), weights=(1, 2), seed=5
    ),
}
SAMPLERS = {
    **GROUPED,
    **PRINTED,
    "hierarchical": samplers.HierarchicalSampler(
        super_classes=SUPER_CLASSES,
        super_classes_per_batch=2,
        classes_per_super_class=2,
        examples_per_class=3,
        seed=5,
    ),
    "mined": samplers.MinedSampler(anchors_per_batch=4, neighbours=samplers.HardNeighbours(LABELS), seed=5),
}
GROUPED |= {
    "hard class, weighted": samplers.HardClassSampler(
        classes_per_batch=4, examples_per_class=3, centres=centres(), candidates=6, weighted=True, seed=5
    ),
    "group of all classes": samplers.GroupSampler(classes_per_batch=11, examples_per_class=4, seed=5),
    "group of one class": samplers.GroupSampler(classes_per_batch=1, examples_per_class=4, seed=5),
    "group of single examples": samplers.GroupSampler(classes_per_batch=5, examples_per_class=1, seed=5),
    "pk of all classes": samplers.PKSampler(classes_per_batch=11, examples_per_class=4, seed=5),
    "pk of one class": samplers.PKSampler(classes_per_batch=1, examples_per_class=4, seed=5),
}
every_class = pytest.mark.parametrize("make", CLASSES.values(), ids=CLASSES)
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
every_printed_sampler = pytest.mark.parametrize("sampler", PRINTED.values(), ids=PRINTED)
every_grouped_sampler = pytest.mark.parametrize("sampler", GROUPED.values(), ids=GROUPED)
every_sampler_of_any_size = pytest.mark.parametrize("sampler", (SAMPLERS | GROUPED).values(), ids=SAMPLERS | GROUPED)


def take(dataset, steps):
    """`(steps, batch)` of the first batches."""
    return next(iter(dataset.batch(steps))).numpy()


@functools.cache
def stream(sampler):
    """The first 210 batches of a sampler over LABELS, more than three blocks."""
    return take(sampler.index_batches(LABELS), 210)


@every_sampler_of_any_size
def test_batches_have_the_size_and_type_they_promise_before_and_after_drawing(sampler):
    dataset = sampler.index_batches(LABELS)
    assert dataset.element_spec == tf.TensorSpec((sampler.batch_size,), tf.int64)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    rows = stream(sampler)
    assert rows.shape == (210, sampler.batch_size)
    assert rows.min() >= 0
    assert rows.max() < len(LABELS)


@every_sampler_of_any_size
def test_no_row_comes_twice_in_a_batch_but_as_a_mined_neighbour(sampler):
    for rows in stream(sampler):
        if isinstance(sampler, samplers.MinedSampler):
            rows = rows[::3]
        assert len(set(rows)) == len(rows)


@every_grouped_sampler
def test_a_batch_is_different_classes_one_after_another_with_all_their_examples(sampler):
    for rows in stream(sampler):
        classes = LABELS[rows].reshape(sampler.classes_per_batch, sampler.examples_per_class)
        assert (classes == classes[:, :1]).all()
        assert len(set(classes[:, 0])) == sampler.classes_per_batch


@every_sampler
def test_two_passes_and_two_datasets_give_the_same_batches(sampler):
    dataset = sampler.index_batches(LABELS)
    np.testing.assert_array_equal(stream(sampler), take(dataset, 210))
    np.testing.assert_array_equal(stream(sampler), take(dataset, 210))


@pytest.mark.slow
def test_another_process_gives_the_same_batches():
    script = (
        "from tfdml.samplers import *\n"
        f"for sampler in {list(PRINTED.values())}:\n"
        f"    batches = sampler.index_batches({LABELS.tolist()}, start=60)\n"
        "    print(next(iter(batches.batch(8))).numpy().tolist())\n"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [str(stream(sampler)[60:68].tolist()) for sampler in PRINTED.values()]


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (samplers.GroupSampler, [[3, 4, 9, 8, 7, 6], [1, 2, 9, 11, 6, 7], [0, 2, 5, 4, 10, 11]]),
        (samplers.PKSampler, [[0, 1, 7, 6, 3, 5], [8, 11, 1, 0, 7, 6], [0, 1, 7, 6, 11, 10]]),
    ],
)
def test_batches_stay_the_same_from_one_release_to_the_next(make, rows):
    labels = np.repeat([0, 1, 2, 3], [3, 3, 2, 4])
    sampler = make(classes_per_batch=3, examples_per_class=2, seed=1)
    assert take(sampler.index_batches(labels), 3).tolist() == rows


@every_class
def test_every_int64_is_a_seed_of_its_own(make):
    seeds = [0, 1, 2**31, 2**32, 2**32 + 1, 2**63 - 1, -1, -(2**63), np.int64(-2)]
    made = [make(classes_per_batch=4, examples_per_class=3, seed=seed) for seed in seeds]
    batches = {str(take(sampler.index_batches(LABELS), 9)) for sampler in made}
    assert len(batches) == len(seeds)


@every_sampler
@pytest.mark.parametrize("start", [1, 63, 64, 130])
def test_starting_at_a_step_is_skipping_the_steps_before_it(sampler, start):
    resumed = take(sampler.index_batches(LABELS, start=start), 70)
    np.testing.assert_array_equal(resumed, stream(sampler)[start : start + 70])


@every_sampler
def test_how_many_steps_are_drawn_at_once_changes_nothing(sampler, monkeypatch):
    monkeypatch.setattr(base, "_BLOCK", 5)
    np.testing.assert_array_equal(stream(sampler)[:70], take(sampler.index_batches(LABELS), 70))


def test_a_pk_epoch_longer_than_a_block_resumes_inside_it():
    labels = np.repeat(np.arange(3000), 2)
    sampler = samplers.PKSampler(classes_per_batch=4, examples_per_class=2)
    assert sampler.steps_per_epoch(labels) == 750
    resumed = take(sampler.index_batches(labels, start=700), 200)
    np.testing.assert_array_equal(resumed, take(sampler.index_batches(labels).skip(700), 200))


@every_sampler
@pytest.mark.parametrize("start", [0, 50])
def test_shards_deal_out_the_stream_batch_by_batch(sampler, start):
    shards = [take(sampler.index_batches(LABELS, start=start, num_shards=3, shard_index=i), 40) for i in range(3)]
    dealt = np.stack(shards, axis=1).reshape(120, -1)
    expected = stream(sampler) if start == 0 else take(sampler.index_batches(LABELS, start=3 * start), 120)
    np.testing.assert_array_equal(dealt, expected[:120])


@every_sampler
def test_steps_far_out_are_reached_at_once(sampler):
    step = 10**15
    far = take(sampler.index_batches(LABELS, start=step), 3)
    np.testing.assert_array_equal(far[1:], take(sampler.index_batches(LABELS, start=step + 1), 2))


@every_sampler
def test_examples_and_labels_are_those_of_the_rows(sampler):
    images = np.random.default_rng(1).integers(0, 256, (len(LABELS), 5, 4, 1), np.uint8)
    dataset = sampler.batches(images, LABELS, start=61)
    assert dataset.element_spec == (
        tf.TensorSpec((sampler.batch_size, 5, 4, 1), tf.uint8),
        tf.TensorSpec((sampler.batch_size,), tf.int64),
    )
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    for row, (examples, labels) in zip(stream(sampler)[61:101], dataset.take(40), strict=True):
        np.testing.assert_array_equal(examples, images[row])
        np.testing.assert_array_equal(labels, LABELS[row])


@every_sampler
def test_shards_of_examples_are_the_shards_of_rows(sampler):
    place = dict(start=7, num_shards=4, shard_index=2)
    rows = take(sampler.index_batches(LABELS, **place), 20)
    examples = [x.numpy() for x, _ in sampler.batches(np.arange(len(LABELS)), LABELS, **place).take(20)]
    np.testing.assert_array_equal(rows, examples)


@every_sampler
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64])
def test_any_integer_type_and_a_column_of_labels_draw_the_same(sampler, dtype):
    for labels in (LABELS.astype(dtype)[:, None], tf.constant(LABELS, dtype), LABELS.astype(dtype).tolist()):
        np.testing.assert_array_equal(stream(sampler)[:5], take(sampler.index_batches(labels), 5))


@every_sampler
def test_class_ids_with_gaps_keep_every_digit(sampler):
    labels = IDS[LABELS]
    rows = stream(sampler)[:20]  # The order of the classes is all that counts.
    for row, (_, batch) in zip(rows, sampler.batches(labels, labels).take(20), strict=True):
        assert batch.numpy().tolist() == labels[row].tolist()


@every_sampler
def test_fit_trains_on_the_batches(sampler):
    images = (LABELS[:, None] == np.arange(11)).astype("float32")
    model = keras.Sequential([keras.Input((11,)), keras.layers.Dense(11)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    history = model.fit(sampler.batches(images, LABELS), steps_per_epoch=3, epochs=2, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@every_sampler
def test_the_pairing_fits_the_batches(sampler):
    assert sampler.pairing is pairs.all_pairs


@every_printed_sampler
def test_settings_are_frozen_and_equal_settings_are_equal(sampler):
    with pytest.raises(AttributeError, match="cannot assign"):
        sampler.seed = 3
    copy = eval(repr(sampler), vars(samplers))
    assert copy == sampler
    assert hash(copy) == hash(sampler)


@every_class
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(classes_per_batch=0), r"Received classes_per_batch=0, expected a whole number of at least 1\."),
        (dict(classes_per_batch=-3), "Received classes_per_batch=-3"),
        (dict(classes_per_batch=4.0), r"Received classes_per_batch=4\.0, expected a whole number"),
        (dict(classes_per_batch=True), "Received classes_per_batch=True"),
        (dict(examples_per_class=0), "Received examples_per_class=0"),
        (dict(examples_per_class="4"), "Received examples_per_class='4'"),
        (dict(short_classes="keep"), "Received short_classes='keep', expected 'drop', 'repeat' or 'error'"),
        (
            dict(seed=None),
            "Received seed=None, expected a whole number from -9223372036854775808 to 9223372036854775807",
        ),
        (dict(seed=2**63), "Received seed=9223372036854775808"),
        (dict(seed=1.5), r"Received seed=1\.5"),
    ],
)
def test_bad_settings_are_refused_when_the_sampler_is_made(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**{"classes_per_batch": 4, "examples_per_class": 3, **settings})


@every_class
def test_settings_go_by_their_names(make):
    with pytest.raises(TypeError, match="positional"):
        make(4, 3)


@every_sampler
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS.astype("float32"), "Received labels of dtype float32, expected integers. Number them"),
        (LABELS.astype(str), "Received labels of dtype <U"),
        (LABELS > 3, "Received labels of dtype bool"),
        (np.stack([LABELS, LABELS], 1), r"Received labels of shape \(90, 2\), expected \(n,\)"),
        ([], r"Received labels of shape \(0,\)"),
        (3, r"Received labels of shape \(\)"),
        (LABELS.astype(np.uint64) + np.uint64(2**63), "Received labels up to 92233720368547758"),
    ],
)
def test_bad_labels_are_refused_at_the_call(sampler, labels, message):
    with pytest.raises(ValueError, match=message):
        sampler.index_batches(labels)
    with pytest.raises(ValueError, match=message):
        sampler.batches(np.zeros(len(LABELS)), labels)


@every_sampler
@pytest.mark.parametrize(
    ("place", "message"),
    [
        (dict(start=-1), "Received start=-1, expected a whole number of at least 0"),
        (dict(start=2.0), r"Received start=2\.0"),
        (dict(num_shards=0), "Received num_shards=0"),
        (dict(num_shards=2, shard_index=2), r"Received shard_index=2, expected a whole number from 0 to 1\."),
        (dict(num_shards=2, shard_index=-1), "Received shard_index=-1"),
        (dict(start=2**64), f"Received start={2**64} with num_shards=1, whose batch numbers exceed int64"),
        (dict(start=2**40, num_shards=2**23), f"Received start={2**40} with num_shards={2**23}"),
        (dict(num_shards=2**64), f"Received start=0 with num_shards={2**64}"),
        (dict(start=np.int64(2**62), num_shards=np.int64(4), shard_index=3), f"Received start={2**62}"),
        (dict(shard_index=1), r"Received shard_index=1, expected a whole number from 0 to 0\."),
    ],
)
def test_a_bad_start_or_shard_is_refused_at_the_call(sampler, place, message):
    with pytest.raises(ValueError, match=message):
        sampler.index_batches(LABELS, **place)
    with pytest.raises(ValueError, match=message):
        sampler.batches(LABELS, LABELS, **place)


@every_sampler
@pytest.mark.parametrize("data", [np.zeros((89, 3)), {"left": np.zeros((90, 2)), "right": np.zeros((89, 2))}, 5])
def test_data_of_another_length_than_labels_are_refused_at_the_call(sampler, data):
    with pytest.raises(ValueError, match=r"Received data of shape \((89, .)?\) and 90 labels\. Expected one label"):
        sampler.batches(data, LABELS)


@every_sampler
def test_a_load_that_is_no_function_is_refused_at_the_call(sampler):
    with pytest.raises(ValueError, match="Received load='png', expected a TensorFlow function of one key"):
        sampler.batches(LABELS, LABELS, load="png")


@every_class
def test_more_classes_than_there_are_is_an_error_that_says_what_to_do(make):
    labels = np.repeat(np.arange(60), [4] * 50 + [3] * 10)

    def error(classes_per_batch, short_classes):
        sampler = make(classes_per_batch=classes_per_batch, examples_per_class=4, short_classes=short_classes)
        with pytest.raises(ValueError, match="classes_per_batch") as raised:
            sampler.index_batches(labels)
        return str(raised.value)

    assert error(55, "drop") == (
        "Received classes_per_batch=55, but only 50 classes have at least examples_per_class=4 examples. "
        "Lower one of the two, or pass short_classes='repeat'."
    )
    only_60 = "Received classes_per_batch=64, but labels have only 60 classes. Lower it."
    assert error(64, "drop") == error(64, "repeat") == only_60


@every_class
def test_dropped_classes_never_come(make):
    sampler = make(classes_per_batch=4, examples_per_class=6)
    labels = set(LABELS[take(sampler.index_batches(LABELS), 50)].ravel())
    assert labels == {3, 5, 6, 8, 9}


@every_class
def test_short_classes_can_be_an_error_that_names_the_shortest(make):
    sampler = make(classes_per_batch=2, examples_per_class=3, short_classes="error")
    message = "Received examples_per_class=3, but 2 of 3 classes have fewer examples (class 7 has 1). Lower"
    with pytest.raises(ValueError, match=re.escape(message)):
        sampler.index_batches([5, 5, 7, 9, 9, 9])
    assert take(sampler.index_batches([5, 5, 5, 9, 9, 9]), 2).shape == (2, 6)


@every_class
def test_repeated_examples_of_a_short_class_come_as_evenly_as_they_can(make):
    labels = np.repeat([0, 1, 2, 3], [1, 2, 3, 9])
    sampler = make(classes_per_batch=4, examples_per_class=5, short_classes="repeat")
    extra = np.zeros(len(labels))
    rows = take(sampler.index_batches(labels), 300)
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
    repeating = make(**settings, short_classes="repeat").index_batches(LABELS)
    np.testing.assert_array_equal(take(repeating, 20), take(make(**settings).index_batches(LABELS), 20))
