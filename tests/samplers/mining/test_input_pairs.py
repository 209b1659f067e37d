"""Batches of a model of pairs from the batches of every sampler."""

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from tfdml import pairs, samplers

LABELS = np.arange(60) // 6
X = np.arange(60, dtype="float32")[:, None] * [1.0, -1.0]  # row numbers, to be read off


def batch_of(labels, rows=None):
    rows = np.arange(len(labels)) if rows is None else rows
    return tf.data.Dataset.from_tensors((X[rows], labels)).repeat()


def triples(batch):
    """Pairs of rows and their label."""
    (a, b), y = batch
    return list(zip(a[:, 0].numpy().astype(int), b[:, 0].numpy().astype(int), y.numpy(), strict=True))


def first(batches, **options):
    return triples(next(iter(samplers.input_pairs(batches, **options))))


MINED = samplers.MinedPairs(LABELS, positives=2, negatives=3)
SAMPLERS = {
    "groups": (samplers.GroupSampler(classes_per_batch=3, examples_per_class=4), pairs.all_pairs, 66),
    "PK": (samplers.PKSampler(classes_per_batch=3, examples_per_class=4), pairs.all_pairs, 66),
    "uniform": (samplers.UniformSampler(batch_size=8), pairs.all_pairs, 28),
    "pairs": (samplers.PairSampler(pairs_per_batch=5, positive_fraction=0.5), pairs.consecutive_pairs, 5),
    "triplets": (samplers.MinedSampler(anchors_per_batch=4, pairs=MINED), pairs.triplet_rows, 8),
    "n-pairs": (samplers.GroupSampler(classes_per_batch=4, examples_per_class=2), pairs.even_against_odd, 16),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_pairs_of_every_sampler_match_where_their_classes_are_equal(name):
    sampler, pairing, candidates = SAMPLERS[name]
    batches = sampler.batches(X, LABELS)
    every = first(batches, pairing=pairing)
    assert len(every) == candidates
    for a, b, y in [*every, *first(batches, pairing=pairing, pairs_per_batch=4)]:
        assert y == (1 if LABELS[a] == LABELS[b] else -1)


def test_candidates_are_the_pairs_that_the_pairing_compares():
    labels = np.array([0, 0, 1, 1, 0, 2])
    all_rows = [(a, b, 1 if labels[a] == labels[b] else -1) for a, b in itertools.combinations(range(6), 2)]
    assert first(batch_of(labels)) == all_rows
    assert first(batch_of(labels), pairing=pairs.consecutive_pairs) == [(0, 1, 1), (2, 3, 1), (4, 5, -1)]
    similar = np.array([1, 1, 0, 0, 1, 1])
    assert first(batch_of(similar), pairing=pairs.labeled_pairs) == [(0, 1, 1), (2, 3, -1), (4, 5, 1)]
    product = [(a, b, 1 if labels[a] == labels[b] else -1) for a in (0, 2, 4) for b in (1, 3, 5)]
    assert first(batch_of(labels), pairing=pairs.even_against_odd) == product
    assert first(batch_of(labels), pairing=pairs.triplet_rows) == [(0, 1, 1), (0, 2, -1), (3, 4, 1), (3, 5, -1)]
    views = [(a, b, 1 if a // 2 == b // 2 else -1) for a, b in itertools.combinations(range(6), 2)]
    assert first(batch_of(labels), pairing=pairs.two_views) == views


def test_a_list_of_labeled_pairs_keeps_its_labels():
    entries = np.array([[0, 9], [3, 4], [10, 20]])
    uniform = samplers.UniformSampler(batch_size=3)
    sampler = samplers.ListSampler(entries=entries, labels=[1, 0, 1], sampler=uniform)
    drawn = first(sampler.batches(X), pairing=sampler.pairing)
    assert set(drawn) == {(0, 9, 1), (3, 4, -1), (10, 20, 1)}


@pytest.mark.parametrize("several", [False, True])
def test_two_sets_stay_apart(several):
    labels = np.array([0, 1, 2])
    each = np.stack([labels, [0, 2, 2]], axis=1) if several else labels
    batches = tf.data.Dataset.from_tensors(((X[:3], X[10:13]), each)).repeat()
    drawn = first(batches, pairing=pairs.two_towers)
    gallery = each[:, 1] if several else labels
    assert drawn == [(a, 10 + b, 1 if labels[a] == gallery[b] else -1) for a in range(3) for b in range(3)]
    chosen = first(batches, pairing=pairs.two_towers, pairs_per_batch=6)
    assert all(a < 3 and b >= 10 for a, b, _ in chosen)


def test_two_sets_of_a_sampler_are_paired():
    sampler = samplers.TwoSetSampler(classes_per_batch=4)
    drawn = first(sampler.batches((X[::2], LABELS[::2]), (X[1::2], LABELS[1::2])), pairing=sampler.pairing)
    assert len(drawn) == 16
    assert all(a % 2 == 0 and b % 2 == 1 and y == (1 if LABELS[a] == LABELS[b] else -1) for a, b, y in drawn)


@pytest.mark.parametrize(("fraction", "positives"), [(0.5, 6), (0.25, 3), (1.0, 12)])
def test_the_share_of_pairs_that_match_is_exact_and_no_pair_is_drawn_twice(fraction, positives):
    labels = np.arange(20) // 4
    for batch in samplers.input_pairs(batch_of(labels), pairs_per_batch=12, positive_fraction=fraction).take(5):
        drawn = triples(batch)
        assert sum(y == 1 for _, _, y in drawn) == positives
        assert len({frozenset(pair[:2]) for pair in drawn}) == 12


def test_where_one_kind_is_short_the_other_fills_up():
    assert Counter(y for _, _, y in first(batch_of(np.arange(6)), pairs_per_batch=10)) == {-1: 10}
    assert Counter(y for _, _, y in first(batch_of(np.zeros(6, int)), pairs_per_batch=10)) == {1: 10}
    assert Counter(y for _, _, y in first(batch_of(np.arange(8) // 2), pairs_per_batch=12)) == {1: 4, -1: 8}


def test_all_pairs_and_both_orders_are_equally_likely():
    labels = np.array([0, 0, 0, 1, 1])  # 4 positive pairs and 6 negative ones
    data = samplers.input_pairs(batch_of(labels), pairs_per_batch=4)
    counts = Counter(pair[:2] for batch in data.take(600) for pair in triples(batch))
    assert len(counts) == 20
    for (a, b), count in counts.items():
        expected = 600 * 2 / (4 if labels[a] == labels[b] else 6) / 2
        assert abs(count - expected) < 4.5 * np.sqrt(expected)


def test_pairs_are_a_function_of_the_seed_and_the_step():
    labels = np.arange(12) // 4
    data = [triples(batch) for batch in samplers.input_pairs(batch_of(labels), pairs_per_batch=5, seed=3).take(4)]
    again = samplers.input_pairs(batch_of(labels), pairs_per_batch=5, seed=3, start=2)
    assert [triples(batch) for batch in again.take(2)] == data[2:]
    assert first(batch_of(labels), pairs_per_batch=5, seed=4) != data[0]
    assert data[0] != data[1]


def test_examples_may_be_structures_and_shapes_are_fixed():
    examples = {"image": X[:6], "size": np.arange(6)}
    data = samplers.input_pairs(tf.data.Dataset.from_tensors((examples, np.arange(6) // 3)), pairs_per_batch=4)
    (a, b), y = data.element_spec
    assert (a["image"].shape, b["size"].shape, y.shape, y.dtype) == ((4, 2), (4,), (4,), tf.int32)
    (a, b), _ = next(iter(data))
    np.testing.assert_array_equal(a["image"][:, 0], a["size"])
    np.testing.assert_array_equal(b["image"][:, 0], b["size"])
