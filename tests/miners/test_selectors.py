"""Which negative each positive is compared with."""

import keras
import numpy as np
import pytest

from tests.backend import fast, numbers
from tests.losses.loops import chosen_negatives, distances, others_of
from tfdml import miners, pairs
from tfdml.miners import selectors

pytestmark = pytest.mark.backends

LABELS = np.repeat(np.arange(5), [1, 2, 3, 4, 3])
X = np.random.default_rng(0).standard_normal((len(LABELS), 3)).astype("float32")

RULES = {
    "hardest": (miners.hardest_negatives, "hardest", None),
    "semi-hard": (miners.semi_hard_negatives, "semi_hard", None),
    "semi-hard inside a margin": (miners.SemiHardNegatives(margin=0.5), "semi_hard", 0.5),
}


@pytest.mark.parametrize(("negatives", "rule", "band"), RULES.values(), ids=RULES)
def test_each_positive_gets_the_negative_of_the_rule(negatives, rule, band):
    d = distances(X.astype("float64"), "euclidean")
    select = fast(lambda d, p: negatives(pairs.all_pairs(LABELS, X), d)(p))
    for p in range(len(X)):
        columns = numbers(select(keras.ops.convert_to_tensor(d, "float32"), np.full(len(X), p, dtype="int32")))
        for a in range(len(X)):
            positives, others = others_of(a, LABELS)
            if p in positives:
                expected = chosen_negatives(d, a, p, others, rule, band) or [-1]
                assert columns[a] == expected[0]


@pytest.mark.parametrize("rule", [miners.semi_hard_negatives, miners.SemiHardNegatives(margin=None)])
@pytest.mark.parametrize("rounding", [-2e-7, -1e-7, 0.0, 1e-7, 2e-7])
def test_a_negative_equal_to_the_positive_is_no_farther_however_its_distance_is_rounded(rule, rounding):
    made = pairs.pairs_with([0], [[0.0]], [0, 1, 1], [[1.0], [1.0], [1.5]])
    d = keras.ops.convert_to_tensor([[1.0, 1.0 + rounding, 1.5]], "float32")
    assert numbers(rule(made, d)(keras.ops.convert_to_tensor([0], "int32"))).tolist() == [2]


def _seeded(made, d):
    return selectors.random_negatives(made, d, seed=5)


def test_semi_hard_negatives_may_end_at_a_distance():
    d = distances(X.astype("float64"), "euclidean")
    rule = miners.SemiHardNegatives(margin=None, max_distance=1.5)
    select = fast(lambda d, p: rule(pairs.all_pairs(LABELS, X), d)(p))
    selected = []
    for p in range(len(X)):
        columns = numbers(select(keras.ops.convert_to_tensor(d, "float32"), np.full(len(X), p, dtype="int32")))
        for a in range(len(X)):
            positives, others = others_of(a, LABELS)
            if p in positives:
                beyond = chosen_negatives(d, a, p, others, "semi_hard", np.inf)
                selected.append(columns[a])
                assert columns[a] == next((n for n in beyond if d[a, n] < 1.5), -1)
    assert {-1} < set(selected)


@pytest.mark.parametrize("negatives", [miners.hardest_negatives, miners.semi_hard_negatives, _seeded])
def test_an_anchor_without_negatives_has_none(negatives):
    select = fast(lambda d, p: negatives(pairs.all_pairs(np.zeros(len(X), int), X), d)(p))
    found = select(distances(X, "euclidean").astype("float32"), np.zeros(len(X), "int32"))
    np.testing.assert_array_equal(numbers(found), np.full(len(X), -1))


def test_random_negatives_are_drawn_in_proportion_to_their_weights():
    anchors, weights = np.zeros((2000, 3), "float32"), np.array([1.0, 1.0, 3.0, 1.0], dtype="float32")

    @fast
    def select(p):
        made = pairs.pairs_with(np.zeros(2000, int), anchors, np.array([0, 0, 1, 2]), X[:4]).scale(negative=weights)
        return _seeded(made, keras.ops.zeros((2000, 4)))(p)

    first, second = (numbers(select(np.full(2000, p, "int32"))) for p in (0, 1))
    np.testing.assert_allclose(np.bincount(first, minlength=4) / 2000, [0, 0, 0.75, 0.25], atol=0.04)
    assert (first != second).any()  # each positive has its own draw


def test_random_negatives_with_one_seed_are_the_same_and_differ_from_batch_to_batch():
    made = pairs.all_pairs(LABELS, X)
    d, p = pairs.euclidean(made), np.ones(len(X), dtype="int32")
    one, other = miners.RandomNegatives(seed=4), miners.RandomNegatives(seed=4)
    draws = [numbers(selector(made, d)(p)) for selector in (one, other, one)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()
