"""What samplers refuse beside single numbers, which `tests/test_limits.py` tries: labels, places, what does not fit."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.samplers.test_contract import CENTERS, GROUP, LABELS, SAMPLERS, UNIFORM, every_sampler_by_row
from tfdml import importance, pairs, samplers
from tfdml.importance.probabilities import hierarchical_probabilities

X = np.zeros((len(LABELS), 2), "float32")
SHORT = np.repeat(np.arange(60), [4] * 50 + [3] * 10)
FEW = [5, 5, 7, 9, 9, 9]
PAIRS, TRIPLETS = np.arange(30).reshape(15, 2) % 20, np.arange(27).reshape(9, 3)
SIX = samplers.ClassCenters(np.arange(6), dim=1)
MINED = samplers.MinedPairs(LABELS)
TWO = samplers.TwoSetSampler(classes_per_batch=3, examples_per_class=2, short_classes="drop")
QUERIES, GALLERY = np.repeat([0, 1, 2, 3, 7], [2, 3, 1, 4, 5]), np.repeat([7, 3, 2, 1, 9], [2, 1, 3, 4, 6])
LISTED = samplers.ListSampler(entries=PAIRS, labels=np.arange(15) % 2, sampler=samplers.UniformSampler(batch_size=4))


def group(**settings):
    return samplers.GroupSampler(**{"classes_per_batch": 2, "examples_per_class": 3, **settings})


def hard(**settings):
    return samplers.HardClassSampler(
        **{"classes_per_batch": 3, "examples_per_class": 2, "centers": CENTERS, **settings}
    )


THREE = np.arange(11) % 3


def hierarchical(super_classes=THREE, **settings):
    settings = {"super_classes_per_batch": 2, "classes_per_super_class": 2, "examples_per_class": 2, **settings}
    return samplers.HierarchicalSampler(super_classes=super_classes, **settings)


def pair(**settings):
    return samplers.PairSampler(pairs_per_batch=2, positive_fraction=0.5, **settings)


def episodes(**settings):
    return samplers.EpisodeSampler(**{"ways": 3, "shots": 2, "queries": 2, **settings})


def mixed(*parts, weights=(1, 1)):
    return samplers.MixedSampler(samplers=parts, weights=weights)


def listed(**settings):
    return samplers.ListSampler(**{"entries": PAIRS, "labels": None, "sampler": UNIFORM, **settings})


def input_pairs(rows, pairing=pairs.all_pairs, **options):
    batches = tf.data.Dataset.from_tensors((X[:rows], np.arange(rows))).repeat()
    return samplers.input_pairs(batches, pairing=pairing, **options)


PLACES = {
    "start=-1, expected a whole number of at least 0": dict(start=-1),
    "start=2.0": dict(start=2.0),
    "num_shards=0": dict(num_shards=0),
    "shard_index=2, expected a whole number from 0 to 1.": dict(num_shards=2, shard_index=2),
    "shard_index=-1": dict(num_shards=2, shard_index=-1),
    "shard_index=1, expected a whole number from 0 to 0.": dict(shard_index=1),
    f"start={2**64} with num_shards=1, whose batch numbers exceed int64": dict(start=2**64),
    f"start={2**40} with num_shards={2**23}": dict(start=2**40, num_shards=2**23),
    f"start=0 with num_shards={2**64}": dict(num_shards=2**64),
    f"start={2**62}": dict(start=np.int64(2**62), num_shards=np.int64(4), shard_index=3),
    "num_parts=0": dict(num_parts=0),
    "part_index=2, expected a whole number from 0 to 1": dict(num_parts=2, part_index=2),
    "num_parts=5 for batches of 12 rows, expected a number of parts that divides": dict(num_parts=5),
}


@pytest.mark.parametrize(("received", "place"), PLACES.items(), ids=PLACES)
def test_a_place_that_there_is_not_is_refused_at_the_call(received, place):
    for call in (GROUP.index_batches, lambda y, **place: GROUP.batches(X, y, **place)):
        with pytest.raises(ValueError, match=re.escape(f"Received {received}")):
            call(LABELS, **place)


WRONG_LABELS = {
    "dtype float32, expected integers. Convert whole numbers": LABELS.astype("float32"),
    "dtype <U": LABELS.astype(str),
    "dtype bool": LABELS > 3,
    "shape (90, 2), expected (n,)": np.stack([LABELS, LABELS], 1),
    "shape (0,)": [],
    "shape ()": 3,
    "up to 92233720368547758": LABELS.astype(np.uint64) + np.uint64(2**63),
}


@every_sampler_by_row
@pytest.mark.parametrize("received", WRONG_LABELS)
def test_labels_of_another_form_are_refused_at_the_call(row, received):
    labels, preposition = WRONG_LABELS[received], "" if received.startswith("up") else "of "
    for call in (row.sampler.index_batches, lambda labels: row.sampler.batches(np.zeros(len(LABELS)), labels)):
        with pytest.raises(ValueError, match=re.escape(f"Received labels {preposition}{received}")):
            call(labels)


@pytest.mark.parametrize("make", [samplers.GroupSampler, samplers.PKSampler, hard], ids=["group", "pk", "hard class"])
def test_more_classes_than_there_are_is_an_error_that_says_what_to_do(make):
    def error(classes_per_batch, short_classes):
        sampler = make(classes_per_batch=classes_per_batch, examples_per_class=4, short_classes=short_classes)
        with pytest.raises(ValueError, match="classes_per_batch") as raised:
            sampler.index_batches(SHORT)
        return str(raised.value)

    assert error(55, "drop") == (
        "Received classes_per_batch=55, but only 50 classes have at least examples_per_class=4 examples. "
        "Lower one of the two, or pass short_classes='repeat'."
    )
    only_60 = "Received classes_per_batch=64, but labels have only 60 classes. Lower it."
    assert error(64, "drop") == error(64, "repeat") == only_60


REFUSED = {  # what the error names: what is wrong
    "2 of 3 classes have fewer examples (class 7 has 1)": lambda: group(short_classes="error").index_batches(FEW),
    "1 classes of one example (class 7)": lambda: pair(short_classes="error").index_batches(FEW),
    "2 classes of one example each, expected one with two": lambda: pair().index_batches([0, 1]),
    "labels with 1 class that can be drawn, expected two": lambda: pair().index_batches([0, 0, 1]),
    "batch_size=9, but only 3 examples": lambda: samplers.UniformSampler(batch_size=9).index_batches([1, 1, 2]),
    "ways=3, but only 0 of 3 classes have shots + queries = 2 + 2": lambda: episodes().index_batches(FEW),
    "1 of 3 classes of fewer than shots + queries = 1 + 1 examples (class 7 has 1)": lambda: episodes(
        ways=2, shots=1, queries=1, short_classes="error"
    ).index_batches(FEW),
    "short_classes='repeat', expected 'drop' or 'error'": lambda: episodes(short_classes="repeat"),
    # super-classes
    "super_classes of shape (2,) and type float64": lambda: hierarchical([0.5, 1.0]),
    "super_classes of shape (2,) and type <U21": lambda: hierarchical(["a", "b"]),
    "super_classes of shape (0,)": lambda: hierarchical({}),
    "super_classes of shape (1, 2)": lambda: hierarchical({0: "a"}),
    "super_classes of shape (2, 3)": lambda: hierarchical(np.zeros((2, 3), int)),
    "super_classes of shape ()": lambda: hierarchical(3),
    "super_classes of 8 classes without class 8 (3 of 11 classes are missing)": lambda: hierarchical(
        np.arange(8) % 3
    ).index_batches(LABELS),
    "super_classes_per_batch=4, but only 3 of 3 super-classes have at least": lambda: hierarchical(
        super_classes_per_batch=4
    ).index_batches(LABELS),
    "but 2 of 3 classes have fewer examples": lambda: hierarchical(
        np.zeros(10, int), super_classes_per_batch=1, examples_per_class=3, short_classes="error"
    ).index_batches(FEW),
    "3 super-classes with 1 classes at least, expected 2 or more": lambda: hierarchical_probabilities(
        np.arange(2, 6), [0, 0, 1, 2], super_classes_per_batch=2, classes_per_super_class=2, examples_per_class=2
    ),
    # hard classes and mined pairs
    "expected tfdml.samplers.ClassCenters(labels, dim)": lambda: hard(centers=np.zeros((6, 2))),
    "candidates=2, expected a whole number of at least 3": lambda: hard(candidates=2),
    "candidates=12, but only 11 classes can be drawn": lambda: hard(candidates=12).index_batches(LABELS),
    "labels with class 64, which is not in centers": lambda: hard().index_batches([64, 64, 1, 1, 2, 2]),
    "embeddings of shape (6, 2) and 6 labels with dim=1": lambda: SIX.refresh(np.zeros((6, 2)), np.arange(6)),
    "embeddings of shape (5, 1) and 6 labels": lambda: SIX.refresh(np.zeros((5, 1)), np.arange(6)),
    "5 classes, expected exactly the 6 of these centers; class 5": lambda: SIX.refresh(np.ones((5, 1)), np.arange(5)),
    "7 classes, expected exactly the 6 of these centers; class 6": lambda: SIX.refresh(np.ones((7, 1)), np.arange(7)),
    "a value that is NaN": lambda: SIX.refresh(np.full((6, 1), np.nan), np.arange(6)),
    "labels of dtype float64": lambda: SIX.refresh(np.ones((6, 1)), np.zeros(6)),
    "expected tfdml.samplers.MinedPairs(labels)": lambda: samplers.MinedSampler(anchors_per_batch=2, pairs=X),
    "anchors_per_batch=99, but only 90 examples are of classes of two": lambda: samplers.MinedSampler(
        anchors_per_batch=99, pairs=MINED
    ).index_batches(LABELS),
    "labels, which are not the labels of pairs": lambda: samplers.MinedSampler(
        anchors_per_batch=2, pairs=MINED
    ).index_batches(LABELS[::-1]),
    "5 labels of 1 classes, expected two classes or more": lambda: samplers.MinedPairs(np.zeros(5, int)),
    "5 labels of 5 classes, expected two classes or more": lambda: samplers.MinedPairs(np.arange(5)),
    "embeddings of shape (89, 2), expected (90, dim)": lambda: MINED.refresh(X[1:]),
    "embeddings of shape (90,), expected (n, dim)": lambda: MINED.refresh(X[:, 0]),
    # mixtures, lists and two sets
    "samplers=(), expected one or more": lambda: mixed(weights=[]),
    "expected one or more tfdml.samplers": lambda: mixed(GROUP, "pk"),
    "In place of a MixedSampler give the samplers that it mixes": lambda: mixed(GROUP, mixed(GROUP, UNIFORM)),
    "samplers of batch_size 12, 6": lambda: mixed(GROUP, group()),
    "samplers of pairing all_pairs, consecutive_pairs": lambda: mixed(UNIFORM, SAMPLERS["pair"].sampler),
    "classes_per_batch=12, but labels have only 11": lambda: mixed(
        UNIFORM, group(classes_per_batch=12, examples_per_class=1)
    ).index_batches(LABELS),
    "entries of shape (3, 4), expected (n, 2) for pairs or (n, 3)": lambda: listed(entries=np.zeros((3, 4), int)),
    "entries of shape (0, 2)": lambda: listed(entries=np.zeros((0, 2), int)),
    "entries of dtype float64": lambda: listed(entries=PAIRS * 1.0),
    "entries down to -20, expected row numbers": lambda: listed(entries=PAIRS - 20),
    "label [2] of a pair, expected 1 for similar or 0": lambda: listed(labels=np.arange(15) % 2 + 1),
    "labels of shape (3,), expected (15,)": lambda: listed(labels=[0, 1, 0]),
    "labels for triplets, expected labels=None": lambda: listed(entries=TRIPLETS, labels=np.zeros(9, int)),
    "sampler=8, expected one of tfdml.samplers": lambda: listed(sampler=8),
    "entries up to row 19 for 5 examples, expected rows 0 to 4": lambda: LISTED.batches(X[:5]),
    "labels of examples, expected none": lambda: LISTED.batches(X, LABELS),
    "on_error='skip', expected 'error'": lambda: LISTED.batches(X, on_error="skip"),
    "batch_size=40, but only 15 examples": lambda: listed(sampler=samplers.UniformSampler(batch_size=40)).batches(X),
    "classes_per_batch=3 and 2 classes that both sets have": lambda: TWO.samplers(QUERIES, GALLERY),
    "but 1 of 5 classes have fewer": lambda: samplers.TwoSetSampler(
        classes_per_batch=3, examples_per_class=2, short_classes="error"
    ).samplers(QUERIES, GALLERY),
    "a set of type ndarray, expected a labeled set": lambda: TWO.batches(X, (X, LABELS)),
    "labels of type ndarray, expected a pair": lambda: TWO.index_batches(QUERIES),
    "TwoSetSampler for pair probabilities": lambda: TWO.importance((QUERIES, GALLERY)),
    "expected one or more tfdml.samplers of one set": lambda: mixed(TWO, weights=[1]),
    # pairs of inputs
    "pairing=<built-in function max>, expected one of tfdml.pairs": lambda: input_pairs(6, max),
    "batches of 5 rows for consecutive_pairs": lambda: input_pairs(5, pairs.consecutive_pairs),
    "8 rows for triplet_rows, expected a multiple of 3": lambda: input_pairs(8, pairs.triplet_rows),
    "pairs_per_batch=7, expected a whole number from 1 to 6": lambda: input_pairs(4, pairs_per_batch=7),
    "positive_fraction=0, expected a number above 0": lambda: input_pairs(4, positive_fraction=0),
    "start=-1, expected a whole number": lambda: input_pairs(4, start=-1),
    "seed=9223372036854775808": lambda: input_pairs(4, seed=2**63),
    "(examples, labels) of a fixed number": lambda: samplers.input_pairs(tf.data.Dataset.range(4)),
    "of a fixed number of rows": lambda: samplers.input_pairs(tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(4)),
    "batches of type ndarray and form None": lambda: samplers.input_pairs(X),
    # masks
    "data with 1 masked entries": lambda: UNIFORM.batches(np.ma.masked_equal(np.arange(90), 3), LABELS),
    "labels with 4 masked entries": lambda: UNIFORM.index_batches(np.ma.masked_equal(LABELS, 1)),
    "labels with 5 masked entries": lambda: importance.simulated_probabilities(UNIFORM, np.ma.masked_equal(LABELS, 2)),
    "embeddings with 6 masked entries": lambda: SIX.refresh(np.ma.masked_equal(np.ones((6, 1)), 1), np.arange(6)),
}


@pytest.mark.parametrize(("received", "make"), REFUSED.items(), ids=REFUSED)
def test_what_cannot_be_drawn_is_refused_before_the_first_batch(received, make):
    before = SIX.centers.copy()
    with pytest.raises(ValueError, match=r"^Received ") as raised:
        make()
    assert received in str(raised.value)
    np.testing.assert_array_equal(SIX.centers, before)


@pytest.mark.parametrize("weights", [(1,), (1, 2, 3), (1, 0), (1, -1), (1, float("nan")), (1, float("inf")), (1, "2")])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ValueError, match=r"Received weights=.* for 2 samplers, expected a positive number for each"):
        mixed(GROUP, UNIFORM, weights=weights)


LARGEST = [
    samplers.UniformSampler(batch_size=len(LABELS)),
    episodes(ways=11, shots=2, queries=2),
    hard(candidates=11),
    hierarchical(super_classes_per_batch=3, classes_per_super_class=3),
    samplers.MinedSampler(anchors_per_batch=len(LABELS), pairs=MINED),
    mixed(UNIFORM, group(classes_per_batch=6, examples_per_class=2)),
]


@pytest.mark.parametrize("sampler", LARGEST, ids=lambda sampler: type(sampler).__name__)
def test_as_many_as_there_are_can_be_drawn(sampler):
    assert sampler.index_batches(LABELS)[0].shape == (sampler.batch_size,)
