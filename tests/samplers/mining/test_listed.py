"""Batches from a list of pairs or triplets."""

import numpy as np
import pytest
import tensorflow as tf

from tests.samplers.sources import Source
from tfdml import losses, pairs, samplers
from tfdml.datasets import LabeledSet

RNG = np.random.default_rng(0)
PAIRS = RNG.integers(0, 20, (15, 2))
SIMILAR = (np.arange(15) % 3 == 0).astype(int)
TRIPLETS = RNG.integers(0, 20, (9, 3))
X = np.arange(20, dtype="float32")[:, None]
BALANCED = samplers.GroupSampler(classes_per_batch=2, examples_per_class=2, seed=1)
UNIFORM = samplers.UniformSampler(batch_size=4, seed=1)
LISTED = samplers.ListSampler(entries=PAIRS, labels=SIMILAR, sampler=BALANCED)


def first(batches, number=5):
    return [(np.asarray(x), labels.numpy()) for x, labels in batches.take(number)]


def entries_of(x, width):
    return x[:, 0].astype(int).reshape(-1, width).tolist()


def test_a_batch_is_entries_of_the_list_with_the_label_of_the_entry_on_every_row():
    for x, labels in first(LISTED.batches(X)):
        assert labels.reshape(-1, 2)[:, 0].tolist() == labels.reshape(-1, 2)[:, 1].tolist()
        assert sorted(labels.tolist()) == [0, 0, 0, 0, 1, 1, 1, 1]  # as many similar as dissimilar pairs
        listed = list(map(list, PAIRS[SIMILAR == 1])), list(map(list, PAIRS[SIMILAR == 0]))
        for entry, label in zip(entries_of(x, 2), labels[::2], strict=True):
            assert entry in listed[1 - label]


def test_triplets_and_similar_pairs_have_the_place_in_the_list_as_label():
    for entries, width in ((TRIPLETS, 3), (PAIRS, 2)):
        sampler = samplers.ListSampler(entries=entries, sampler=UNIFORM)
        for x, labels in first(sampler.batches(X)):
            assert sampler.batch_size == len(x) == 4 * width
            assert entries_of(x, width) == entries[labels[::width]].tolist()
            assert (labels.reshape(-1, width) == labels[::width, None]).all()


def test_a_pairing_fits_each_kind_of_list():
    assert LISTED.pairing is pairs.labeled_pairs
    assert samplers.ListSampler(entries=PAIRS, sampler=UNIFORM).pairing is pairs.even_against_odd
    assert samplers.ListSampler(entries=TRIPLETS, sampler=UNIFORM).pairing is pairs.triplet_rows
    _, labels = first(LISTED.batches(X), 1)[0]
    embeddings = RNG.standard_normal((8, 4))
    found = losses.ContrastiveLoss(pairing=LISTED.pairing).pair(labels, embeddings)
    assert found.positive[:, 0].numpy().tolist() == labels[::2].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("options", [dict(start=3), dict(num_shards=2, shard_index=1), dict(start=70, num_shards=2)])
def test_a_resumed_stream_and_a_shard_are_parts_of_the_whole_one(options):
    whole = first(LISTED.batches(X), 150)
    start, shards, shard = options.get("start", 0), options.get("num_shards", 1), options.get("shard_index", 0)
    for k, (x, labels) in enumerate(first(LISTED.batches(X, **options))):
        expected = whole[(start + k) * shards + shard]
        np.testing.assert_array_equal(x, expected[0])
        np.testing.assert_array_equal(labels, expected[1])


FORMS = {
    "files": (np.array([str(k) for k in range(20)]), lambda key: tf.strings.to_number(key)[None]),
    "a source": (Source(len(X), X.__getitem__), None),
    "a dict": ({"x": X}, None),
    "a labeled set": (LabeledSet(images=X, labels=np.arange(20) // 5, class_names=tuple("abcd")), None),
}


@pytest.mark.slow
@pytest.mark.parametrize(("data", "load"), FORMS.values(), ids=FORMS)
def test_every_form_of_data_gives_the_same_batches(data, load):
    for (x, labels), (found, found_labels) in zip(
        first(LISTED.batches(X), 3), LISTED.batches(data, load=load).take(3), strict=True
    ):
        np.testing.assert_array_equal(found["x"] if isinstance(found, dict) else found, x)
        np.testing.assert_array_equal(found_labels, labels)
