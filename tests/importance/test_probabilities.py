"""Pair probabilities against every batch written out."""

import itertools
import math

import numpy as np
import pytest

from tests.backend import numbers
from tfdml import importance, pairs
from tfdml.importance.probabilities import (
    group_probabilities,
    mixed_probabilities,
    p_random_probabilities,
    uniform_probabilities,
)

pytestmark = pytest.mark.backends

COUNTS = {3: 3, 7: 2, 10: 4}

LABELS = np.repeat(list(COUNTS), list(COUNTS.values()))


def q_by_enumeration(batches):
    """Q of each ordered pair of rows from all equally likely batches of a design, each a list of rows."""
    q = np.zeros((len(LABELS), len(LABELS)))
    batches = list(batches)
    for rows in batches:
        ordered = list(itertools.permutations(rows, 2))
        for i, j in ordered:
            q[i, j] += 1 / len(ordered) / len(batches)
    return q


def all_groups(n, m):
    """Every (m, n)-group batch of LABELS, as often as it is likely."""
    rows_of = [np.flatnonzero(label == LABELS) for label in COUNTS]
    times = math.lcm(*(math.comb(len(rows), m) for rows in rows_of)) ** n
    for chosen in itertools.combinations(range(len(COUNTS)), n):
        sets = [list(itertools.combinations(rows_of[c], m)) for c in chosen]
        batches = [sum(batch, ()) for batch in itertools.product(*sets)]
        for batch in batches:
            for _ in range(times // len(batches)):
                yield batch


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 2), (3, 1), (1, 2)])
def test_the_probability_of_group_pairs_is_that_of_all_batches_written_out(n, m):
    q = group_probabilities(COUNTS, classes_per_batch=n, examples_per_class=m)
    np.testing.assert_allclose(q.of(LABELS), q_by_enumeration(all_groups(n, m)), rtol=1e-12)


def test_repeated_examples_count_as_pairs_with_others_but_not_with_themselves():
    # Of 2 examples asked for 5, one comes twice and one three times: 12 of the 20 ordered pairs are of different ones.
    assert importance.probabilities.pairs_inside(np.array([2]), 5)[0] * 2 == 12
    # Of 3 examples asked for 4: a, a, b, c have 12 - 2 pairs.
    assert importance.probabilities.pairs_inside(np.array([3]), 4)[0] * 6 == pytest.approx(10)
    assert importance.probabilities.pairs_inside(np.array([1]), 4)[0] == 0
    assert importance.probabilities.pairs_inside(np.array([9]), 4)[0] * 72 == pytest.approx(12)


def test_the_probability_of_random_pairs_is_that_of_its_steps():
    q = p_random_probabilities(COUNTS, positive_fraction=0.2).of(LABELS)
    expected = np.zeros_like(q)
    for i, j in itertools.permutations(range(len(LABELS)), 2):
        a, b = LABELS[i], LABELS[j]
        if a == b:
            expected[i, j] = 0.2 * (1 / 3) * (1 / COUNTS[a]) * (1 / (COUNTS[a] - 1))
        else:
            expected[i, j] = 0.8 * (1 / 3) * (1 / 2) * (1 / COUNTS[a]) * (1 / COUNTS[b])
    np.testing.assert_allclose(q, expected, rtol=1e-12)


def test_random_pairs_of_single_examples_are_negative_only():
    q = p_random_probabilities({0: 1, 1: 3, 2: 2}, positive_fraction=0.2)
    np.testing.assert_allclose(q.within, [0, 0.2 / 2 / 6, 0.2 / 2 / 2])
    assert q.of(np.array([0, 1, 1, 1, 2, 2])).sum() == pytest.approx(1.0)


def test_uniform_pairs_are_all_alike():
    q = uniform_probabilities(COUNTS)
    expected = np.full((9, 9), 1 / 72) - np.eye(9) / 72
    np.testing.assert_allclose(q.of(LABELS), expected, rtol=1e-12)
    reweighted = importance.ImportanceWeights(q)(all_pairs())
    np.testing.assert_allclose(numbers(reweighted.positive), numbers(all_pairs().positive), rtol=1e-6)
    np.testing.assert_allclose(numbers(reweighted.negative), numbers(all_pairs().negative), rtol=1e-6)


def test_mixed_designs_add_up_with_their_weights_over_all_classes():
    group = group_probabilities({3: 3, 10: 4}, classes_per_batch=2, examples_per_class=2)
    uniform = uniform_probabilities(COUNTS)
    mixed = mixed_probabilities([group, uniform], [0.25, 0.75])
    known = LABELS != 7
    expected = 0.75 * uniform.of(LABELS)
    expected[np.ix_(known, known)] += 0.25 * group.of(LABELS[known])
    np.testing.assert_allclose(mixed.of(LABELS), expected, rtol=1e-12)
    np.testing.assert_array_equal(mixed.counts, list(COUNTS.values()))
    with pytest.raises(ValueError, match="different numbers of examples of class 3, expected one"):
        mixed_probabilities([group, uniform_probabilities({3: 4})], [0.5, 0.5])


def test_every_probability_adds_up_to_one():
    counts = {label: 3 + label % 5 for label in range(40)}
    labels = np.repeat(list(counts), list(counts.values()))
    for q in (
        group_probabilities(counts, classes_per_batch=7, examples_per_class=3),
        p_random_probabilities(counts, positive_fraction=0.9),
        uniform_probabilities(counts),
    ):
        assert q.of(labels).sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="Received label 41, expected one of the 40 classes"):
        q.of(np.array([1, 41]))


def all_pairs(labels=LABELS):
    return pairs.all_pairs(labels.astype("int32"), np.zeros((len(labels), 2), dtype="float32"))


def test_too_few_classes_or_examples_have_no_pairs():
    with pytest.raises(ValueError, match="Received counts of 3 classes, expected 4 or more"):
        group_probabilities(COUNTS, classes_per_batch=4, examples_per_class=2)
    with pytest.raises(ValueError, match="Received counts of 1 classes, expected 2 or more"):
        p_random_probabilities({1: 5}, positive_fraction=0.5)
    with pytest.raises(ValueError, match="classes of one example each, expected one with two"):
        p_random_probabilities({1: 1, 2: 1}, positive_fraction=0.5)
    with pytest.raises(ValueError, match="Received 1 example, expected two or more"):
        uniform_probabilities({1: 1})


def test_the_induced_lambda_makes_the_balanced_loss_the_contrastive_loss():
    counts = np.array([3, 2, 4])
    lam = importance.induced_lambda(counts[:, None], counts, classes=3)
    for a, n in itertools.permutations(range(3), 2):
        assert lam[a, n] / (3 - 1) * (counts[a] - 1) / counts[n] == pytest.approx(1.0)
    assert importance.induced_lambda(5, 5, classes=101) == pytest.approx(125)
    with pytest.raises(ValueError, match="a class of 1 examples as anchors, expected 2"):
        importance.induced_lambda([1, 4], 4, classes=2)
