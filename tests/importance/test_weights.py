"""Importance weights, which make the loss of a batch unbiased."""

import functools
import itertools

import keras
import numpy as np
import pytest

from tests.backend import compiled, fast, gradient, gradient_of, numbers
from tests.importance.test_probabilities import COUNTS, LABELS, all_pairs
from tfdml import importance, losses, pairs, samplers
from tfdml.importance.probabilities import (
    group_probabilities,
    mixed_probabilities,
    p_random_probabilities,
    uniform_probabilities,
)

pytestmark = pytest.mark.backends


def test_weights_are_those_of_the_paper():
    """Eqs. (24) and (25), for L = 3 classes of N = 9 examples."""
    m, n, p = 2, 2, 0.3
    group = importance.ImportanceWeights(group_probabilities(COUNTS, classes_per_batch=n, examples_per_class=m))
    random = importance.ImportanceWeights(p_random_probabilities(COUNTS, positive_fraction=p))
    by_group, by_random = fast(group)(all_pairs()), fast(random)(all_pairs())
    for i, j in itertools.permutations(range(len(LABELS)), 2):
        a, b = COUNTS[LABELS[i]], COUNTS[LABELS[j]]
        if LABELS[i] == LABELS[j]:
            assert numbers(by_group.positive)[i, j] == pytest.approx(3 * 3 * a * (a - 1) / (1 * 9 * 8))
            assert numbers(by_random.positive)[i, j] == pytest.approx(3 * a * (a - 1) / (p * 9 * 8))
        else:
            assert numbers(by_group.negative)[i, j] == pytest.approx(3 * 2 * 3 * a * b / (2 * 1 * 9 * 8))
            assert numbers(by_random.negative)[i, j] == pytest.approx(3 * 2 * a * b / ((1 - p) * 9 * 8))
    assert not numbers(by_group.positive)[LABELS[:, None] != LABELS].any()
    assert not numbers(by_group.negative)[LABELS[:, None] == LABELS].any()


@pytest.mark.parametrize("delta", [-0.5, 0.0, 0.5, 2.0])
def test_delta_is_an_exponent(delta):
    q = group_probabilities(COUNTS, classes_per_batch=2, examples_per_class=2)
    w = fast(importance.ImportanceWeights(q))(all_pairs())
    powered = fast(importance.ImportanceWeights(q, delta))(all_pairs())
    for exact, found in ((w.positive, powered.positive), (w.negative, powered.negative)):
        exact, found = numbers(exact), numbers(found)
        np.testing.assert_allclose(found[exact > 0], exact[exact > 0] ** delta, rtol=1e-5)
        assert not found[exact == 0].any()


@pytest.mark.parametrize("wrap", [fast, pytest.param(compiled, marks=pytest.mark.slow)], ids=["eager", "compiled"])
def test_weights_fit_lists_of_pairs_and_other_references(wrap):
    q = mixed_probabilities(
        [p_random_probabilities(COUNTS, positive_fraction=0.3), uniform_probabilities(COUNTS)], [0.4, 0.6]
    )
    weights = importance.ImportanceWeights(q)
    full = weights(all_pairs())
    full = numbers(full.positive) + numbers(full.negative)
    labels, x = LABELS[:8].astype("int32"), np.zeros((8, 2), dtype="float32")
    labels, x = map(keras.ops.convert_to_tensor, (labels, x))

    def weight(made):
        weighted = weights(made)
        return weighted.positive + weighted.negative

    listed = wrap(lambda y, v: weight(pairs.consecutive_pairs(y, v)))(labels, x)
    np.testing.assert_allclose(numbers(listed)[:, 0], full[[0, 2, 4, 6], [1, 3, 5, 7]], rtol=1e-5)
    against = wrap(lambda y, v: weight(pairs.pairs_with(y[:3], v[:3], y[3:], v[3:])))(labels, x)
    np.testing.assert_allclose(numbers(against), full[:3, 3:8], rtol=1e-5)


def test_a_pair_that_is_never_drawn_has_no_weight():
    impossible = {
        "never draws two examples of class 10": group_probabilities({10: 4}, classes_per_batch=1, examples_per_class=1),
        "never draws two examples of class 3": group_probabilities(COUNTS, classes_per_batch=2, examples_per_class=1),
        "never draws class 3 together with class 7": group_probabilities(
            COUNTS, classes_per_batch=1, examples_per_class=2
        ),
        "never draws class 7 together with class 10": mixed_probabilities(
            [
                p_random_probabilities({3: 3, 7: 2}, positive_fraction=0.5),
                p_random_probabilities({3: 3, 10: 4}, positive_fraction=0.5),
            ],
            [0.5, 0.5],
        ),
    }
    one_way = uniform_probabilities({3: 2, 7: 2})
    impossible["never draws class 7 together with class 3"] = one_way._replace(
        anchor_factors=np.array([[0.1, 0.1], [0.0, 0.1]]), reference_factors=np.eye(2)
    )
    for message, q in impossible.items():
        with pytest.raises(
            ValueError, match=f"Received a batch design that {message}, expected one that can draw every"
        ):
            importance.ImportanceWeights(q)


def test_a_class_that_was_not_counted_is_an_error():
    weights = importance.ImportanceWeights(uniform_probabilities(COUNTS))
    with pytest.raises(ValueError, match="label 4, which the importance of the sampler does not cover"):
        weights(all_pairs(np.array([3, 4])))


@pytest.mark.parametrize("delta", [1.0, 0.5])
def test_a_loss_keeps_its_importance_weights(delta):
    q = group_probabilities(COUNTS, classes_per_batch=2, examples_per_class=2)
    loss = losses.ContrastiveLoss(importance=importance.ImportanceWeights(q, delta))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    x = np.random.default_rng(0).normal(size=(9, 4)).astype("float32")
    np.testing.assert_array_equal(numbers(loss.call(LABELS, x)), numbers(again.call(LABELS, x)))
    plain = losses.ContrastiveLoss()
    assert np.abs(numbers(plain.call(LABELS, x)) - numbers(loss.call(LABELS, x))).max() > 0.01
    with pytest.raises(ValueError, match=r"importance=0\.5, expected a function or None"):
        losses.ContrastiveLoss(importance=0.5)


UNEVEN = np.random.default_rng(1).permutation(np.repeat(np.arange(6), [2, 3, 4, 6, 9, 14]))

FEATURES = np.random.default_rng(2).normal(size=(len(UNEVEN), 3)) + 0.5 * UNEVEN[:, None]

CLASS_COUNTS = dict(enumerate(np.bincount(UNEVEN).tolist()))

DESIGNS = {
    "group": samplers.GroupSampler(classes_per_batch=3, examples_per_class=2, seed=4),
    "p-random": samplers.PairSampler(pairs_per_batch=12, positive_fraction=0.7, seed=4),
}


def gradients(sampler, losses, batches):
    """`(losses, batches, 3, 2)`: d loss / d A of the batches that a sampler draws, for embeddings features @ A."""
    rows = sampler.index_batches(UNEVEN)[:batches]
    start = keras.ops.convert_to_tensor(np.eye(3, 2, dtype="float32"))

    def grads(batch):
        labels, features = batch
        return [gradient_of(lambda a, loss=loss: loss(labels, keras.ops.matmul(features, a)), start) for loss in losses]

    batches = UNEVEN[rows].astype("int32"), FEATURES[rows].astype("float32")
    found = compiled(lambda *parts: keras.ops.map(grads, parts))(*map(keras.ops.convert_to_tensor, batches))
    return [numbers(part).astype("float64") for part in found]


@functools.cache
def full_gradient():
    """The gradient of the loss on all pairs of the training set."""
    whole = losses.BalancedContrastiveLoss(class_counts=CLASS_COUNTS, negatives_per_positive=8.0, margin=3.0)
    features = keras.ops.convert_to_tensor(FEATURES.astype("float32"))
    return gradient(lambda a: whole(UNEVEN, keras.ops.matmul(features, a)), np.eye(3, 2, dtype="float32"))


def standard_errors_from_full(found):
    """The largest distance of the mean gradient from the full one, in standard errors."""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return np.max(np.abs(found.mean(axis=0) - full_gradient()) / error)


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_the_mean_gradient_of_batches_is_the_full_gradient_with_weights_and_is_not_without(name):
    sampler = DESIGNS[name]
    options = {"class_counts": CLASS_COUNTS, "negatives_per_positive": 8.0, "margin": 3.0, "pairing": sampler.pairing}
    reweighted = losses.BalancedContrastiveLoss(importance=sampler.importance(UNEVEN), **options)
    with_weights, without = gradients(sampler, [reweighted, losses.BalancedContrastiveLoss(**options)], 4000)
    assert standard_errors_from_full(with_weights) < 3.5
    assert standard_errors_from_full(without) > 10
