"""Episodes: what stands where, and how likely pairs are."""

import itertools
import re

import numpy as np
import pytest

from tests.samplers.frequencies import take
from tfdml import samplers

COUNTS = np.array([4, 5, 9, 3, 6, 2])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(6), COUNTS))
EPISODES = samplers.EpisodeSampler(ways=3, shots=1, queries=2, seed=4)


@pytest.mark.parametrize(("ways", "shots", "queries"), [(2, 1, 1), (3, 2, 1), (5, 1, 2), (4, 2, 2)])
def test_support_comes_first_class_by_class_and_queries_follow_in_the_same_order(ways, shots, queries):
    sampler = samplers.EpisodeSampler(ways=ways, shots=shots, queries=queries)
    assert sampler.batch_size == ways * (shots + queries)
    for rows in take(sampler, LABELS, 30):
        assert len(set(rows)) == sampler.batch_size
        support = LABELS[rows[: ways * shots]].reshape(ways, shots)
        asked = LABELS[rows[ways * shots :]].reshape(ways, queries)
        classes = support[:, 0]
        assert len(set(classes)) == ways
        assert (support == classes[:, None]).all()
        assert (asked == classes[:, None]).all()


def test_a_query_and_a_support_row_of_a_class_are_any_two_of_its_examples():
    rows = take(EPISODES, LABELS, 30_000)
    support, query = rows[:, 0], rows[:, 3]
    of_class = LABELS[support] == 4
    times = np.zeros((len(LABELS), len(LABELS)))
    np.add.at(times, (support[of_class], query[of_class]), 1)
    pairs = list(itertools.permutations(np.flatnonzero(LABELS == 4), 2))
    seen = np.array([times[pair] for pair in pairs])
    assert seen.sum() == of_class.sum()
    assert ((seen - seen.mean()) ** 2 / seen.mean()).sum() < 65  # Chi-square with 29 degrees of freedom, p = 1e-4.


def test_short_classes_never_come_or_are_an_error():
    classes = set(LABELS[take(samplers.EpisodeSampler(ways=3, shots=2, queries=3), LABELS, 50)].ravel())
    assert classes == {1, 2, 4}
    strict = samplers.EpisodeSampler(ways=3, shots=2, queries=1, short_classes="error")
    message = "1 of 6 classes of fewer than shots + queries = 2 + 1 examples (class 5 has 2). Lower one of the two, or"
    with pytest.raises(ValueError, match=re.escape(message)):
        strict.index_batches(LABELS)
    assert take(strict, LABELS[LABELS != 5], 1).shape == (1, 9)
