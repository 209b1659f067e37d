"""Batches of two sets: queries and gallery examples of the same classes."""

import functools

import numpy as np
import pytest

from tests.samplers.frequencies import take
from tfdml import samplers
from tfdml.datasets import LabeledSet

QUERIES = np.repeat([0, 1, 2, 3, 7], [2, 3, 1, 4, 5])
GALLERY = np.repeat([7, 3, 2, 1, 9], [2, 1, 3, 4, 6])
COMMON = [1, 2, 3, 7]
X, Y = np.arange(len(QUERIES)), np.arange(len(GALLERY))
twos = functools.partial(samplers.TwoSetSampler, classes_per_batch=3, examples_per_class=2)
SAMPLER = twos(seed=4)


@functools.cache
def first(number=40, sampler=SAMPLER, **options):
    return [
        (x.numpy(), y.numpy(), labels.numpy())
        for (x, y), labels in sampler.batches((X, QUERIES), (Y, GALLERY), **options).take(number)
    ]


def test_row_i_of_both_sets_is_of_the_class_of_label_i():
    seen = set()
    for x, y, labels in first():
        np.testing.assert_array_equal(QUERIES[x], labels)
        np.testing.assert_array_equal(GALLERY[y], labels)
        classes = labels.reshape(3, 2)
        assert (classes[:, 0] == classes[:, 1]).all()
        assert len(set(classes[:, 0])) == 3
        seen |= set(labels.tolist())
    assert sorted(seen) == COMMON


def test_examples_are_drawn_without_replacement_and_repeated_where_there_are_too_few():
    for x, y, labels in first():
        for rows, all_labels in ((x, QUERIES), (y, GALLERY)):
            for k in range(0, 6, 2):
                enough = (all_labels == labels[k]).sum() > 1
                assert len(set(rows[k : k + 2])) == 1 + enough


@pytest.mark.slow
def test_the_examples_of_the_two_sets_are_independent():
    """Of two sets with the same rows, a query meets every example of its class equally often."""
    labels = np.repeat(np.arange(3), 4)
    sampler = samplers.TwoSetSampler(classes_per_batch=1, seed=0)
    query, item = (take(one, labels, 6000)[:, 0] for one in sampler.samplers(labels, labels))
    np.testing.assert_array_equal(labels[query], labels[item])
    counts = np.histogram2d(query, item, bins=(range(13), range(13)))[0]
    observed = counts[labels[:, None] == labels]
    assert ((observed - 125) ** 2 / 125).sum() < 94  # 47 degrees of freedom, p = 5e-5


def test_a_stream_resumes_and_seeds_differ():
    whole = first()
    for found, expected in zip(first(5, start=30), whole[30:], strict=False):
        for part, of_whole in zip(found, expected, strict=True):
            np.testing.assert_array_equal(part, of_whole)
    other = first(sampler=twos(seed=5))
    assert any((a[0] != b[0]).any() for a, b in zip(whole, other, strict=True))


@pytest.mark.slow
def test_augmentation_sees_other_seeds_in_the_other_set():
    seeds = next(iter(SAMPLER.batches((X, QUERIES), (Y, GALLERY), augment=lambda example, seed: seed)))[0]
    assert not (seeds[0].numpy() == seeds[1].numpy()).any()


def test_labeled_sets_bring_their_labels():
    images = [np.arange(len(labels))[:, None, None, None] for labels in (QUERIES, GALLERY)]
    sets = [
        LabeledSet(images=x, labels=labels, class_names=tuple("abcdefghij"))
        for x, labels in zip(images, (QUERIES, GALLERY), strict=True)
    ]
    for ((x, y), labels), expected in zip(SAMPLER.batches(*sets).take(5), first(), strict=False):
        np.testing.assert_array_equal(x[:, 0, 0, 0], expected[0])
        np.testing.assert_array_equal(y[:, 0, 0, 0], expected[1])
        np.testing.assert_array_equal(labels, expected[2])


@pytest.mark.slow
def test_a_sampler_of_two_sets_is_a_sampler_whose_row_numbers_are_those_of_its_batches():
    assert isinstance(SAMPLER, samplers.Sampler)
    for options in ({}, {"start": 30}, {"num_shards": 2, "shard_index": 1}):
        rows = zip(*SAMPLER.index_batches((QUERIES, GALLERY), **options)[:5], strict=True)
        for (query, item), (x, y, _) in zip(rows, first(5, **options), strict=True):
            np.testing.assert_array_equal(query, x)
            np.testing.assert_array_equal(item, y)
