"""Probabilities of pairs against every batch written out, and weights that make batches unbiased."""

import itertools
import math

import keras
import numpy as np
import pytest

from tests.backend import compiled, fast, gradient, numbers, slope_of
from tfdml import importance, losses, pairs, samplers

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
    q = importance.group(COUNTS, classes_per_batch=n, examples_per_class=m)
    np.testing.assert_allclose(q.of(LABELS), q_by_enumeration(all_groups(n, m)), rtol=1e-12)


def test_repeated_examples_count_as_pairs_with_others_but_not_with_themselves():
    # Of 2 examples asked for 5, one comes twice and one three times: 12 of the 20 ordered pairs are of different ones.
    assert importance.pairs_inside(np.array([2]), 5)[0] * 2 == 12
    # Of 3 examples asked for 4: a, a, b, c have 12 - 2 pairs.
    assert importance.pairs_inside(np.array([3]), 4)[0] * 6 == pytest.approx(10)
    assert importance.pairs_inside(np.array([1]), 4)[0] == 0
    assert importance.pairs_inside(np.array([9]), 4)[0] * 72 == pytest.approx(12)


def test_the_probability_of_random_pairs_is_that_of_its_steps():
    q = importance.p_random(COUNTS, positive_fraction=0.2).of(LABELS)
    expected = np.zeros_like(q)
    for i, j in itertools.permutations(range(len(LABELS)), 2):
        a, b = LABELS[i], LABELS[j]
        if a == b:
            expected[i, j] = 0.2 * (1 / 3) * (1 / COUNTS[a]) * (1 / (COUNTS[a] - 1))
        else:
            expected[i, j] = 0.8 * (1 / 3) * (1 / 2) * (1 / COUNTS[a]) * (1 / COUNTS[b])
    np.testing.assert_allclose(q, expected, rtol=1e-12)


def test_random_pairs_of_single_examples_are_negative_only():
    q = importance.p_random({0: 1, 1: 3, 2: 2}, positive_fraction=0.2)
    np.testing.assert_allclose(q.within, [0, 0.2 / 2 / 6, 0.2 / 2 / 2])
    assert q.of(np.array([0, 1, 1, 1, 2, 2])).sum() == pytest.approx(1.0)


def test_uniform_pairs_are_all_alike():
    q = importance.uniform(COUNTS)
    expected = np.full((9, 9), 1 / 72) - np.eye(9) / 72
    np.testing.assert_allclose(q.of(LABELS), expected, rtol=1e-12)
    weighed = importance.ImportanceWeights(q)(all_pairs())
    np.testing.assert_allclose(numbers(weighed.positive), numbers(all_pairs().positive), rtol=1e-6)
    np.testing.assert_allclose(numbers(weighed.negative), numbers(all_pairs().negative), rtol=1e-6)


def test_mixed_designs_add_up_with_their_weights_over_all_classes():
    group = importance.group({3: 3, 10: 4}, classes_per_batch=2, examples_per_class=2)
    uniform = importance.uniform(COUNTS)
    mixed = importance.mixed([group, uniform], [0.25, 0.75])
    known = LABELS != 7
    expected = 0.75 * uniform.of(LABELS)
    expected[np.ix_(known, known)] += 0.25 * group.of(LABELS[known])
    np.testing.assert_allclose(mixed.of(LABELS), expected, rtol=1e-12)
    np.testing.assert_array_equal(mixed.counts, list(COUNTS.values()))
    with pytest.raises(ValueError, match="different numbers of examples of class 3, expected one"):
        importance.mixed([group, importance.uniform({3: 4})], [0.5, 0.5])


def test_every_probability_adds_up_to_one():
    counts = {label: 3 + label % 5 for label in range(40)}
    labels = np.repeat(list(counts), list(counts.values()))
    for q in (
        importance.group(counts, classes_per_batch=7, examples_per_class=3),
        importance.p_random(counts, positive_fraction=0.9),
        importance.uniform(counts),
    ):
        assert q.of(labels).sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="Received label 41, expected one of the 40 classes"):
        q.of(np.array([1, 41]))


def all_pairs(labels=LABELS):
    return pairs.all_pairs(labels.astype("int32"), np.zeros((len(labels), 2), dtype="float32"))


def test_weights_are_those_of_the_paper():
    """Eqs. (24) and (25), for L = 3 classes of N = 9 examples."""
    m, n, p = 2, 2, 0.3
    group = importance.ImportanceWeights(importance.group(COUNTS, classes_per_batch=n, examples_per_class=m))
    random = importance.ImportanceWeights(importance.p_random(COUNTS, positive_fraction=p))
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
    q = importance.group(COUNTS, classes_per_batch=2, examples_per_class=2)
    w = fast(importance.ImportanceWeights(q))(all_pairs())
    powered = fast(importance.ImportanceWeights(q, delta))(all_pairs())
    for exact, found in ((w.positive, powered.positive), (w.negative, powered.negative)):
        exact, found = numbers(exact), numbers(found)
        np.testing.assert_allclose(found[exact > 0], exact[exact > 0] ** delta, rtol=1e-5)
        assert not found[exact == 0].any()


@pytest.mark.parametrize("wrap", [fast, compiled], ids=["eager", "compiled"])
def test_weights_fit_lists_of_pairs_and_other_references(wrap):
    q = importance.mixed([importance.p_random(COUNTS, positive_fraction=0.3), importance.uniform(COUNTS)], [0.4, 0.6])
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
        "never draws two examples of class 10": importance.group({10: 4}, classes_per_batch=1, examples_per_class=1),
        "never draws two examples of class 3": importance.group(COUNTS, classes_per_batch=2, examples_per_class=1),
        "never draws class 3 together with class 7": importance.group(
            COUNTS, classes_per_batch=1, examples_per_class=2
        ),
        "never draws class 7 together with class 10": importance.mixed(
            [
                importance.p_random({3: 3, 7: 2}, positive_fraction=0.5),
                importance.p_random({3: 3, 10: 4}, positive_fraction=0.5),
            ],
            [0.5, 0.5],
        ),
    }
    one_way = importance.uniform({3: 2, 7: 2})
    impossible["never draws class 7 together with class 3"] = one_way._replace(
        left=np.array([[0.1, 0.1], [0.0, 0.1]]), right=np.array([[1.0, 0.0], [0.0, 1.0]])
    )
    for message, q in impossible.items():
        with pytest.raises(
            ValueError, match=f"Received a batch design that {message}, expected one that can draw every"
        ):
            importance.ImportanceWeights(q)


def test_too_few_classes_or_examples_have_no_pairs():
    with pytest.raises(ValueError, match="Received counts of 3 classes, expected 4 or more"):
        importance.group(COUNTS, classes_per_batch=4, examples_per_class=2)
    with pytest.raises(ValueError, match="Received counts of 1 classes, expected 2 or more"):
        importance.p_random({1: 5}, positive_fraction=0.5)
    with pytest.raises(ValueError, match="classes of one example each, expected one with two"):
        importance.p_random({1: 1, 2: 1}, positive_fraction=0.5)
    with pytest.raises(ValueError, match="Received 1 example, expected two at least"):
        importance.uniform({1: 1})


def test_a_class_that_was_not_counted_is_an_error():
    weights = importance.ImportanceWeights(importance.uniform(COUNTS))
    with pytest.raises(ValueError, match="label 4, which the importance of the sampler does not cover"):
        weights(all_pairs(np.array([3, 4])))


@pytest.mark.parametrize("delta", [1.0, 0.5])
def test_a_loss_keeps_its_importance_weights(delta):
    q = importance.group(COUNTS, classes_per_batch=2, examples_per_class=2)
    loss = losses.ContrastiveLoss(importance=importance.ImportanceWeights(q, delta))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    x = np.random.default_rng(0).normal(size=(9, 4)).astype("float32")
    np.testing.assert_array_equal(numbers(loss.call(LABELS, x)), numbers(again.call(LABELS, x)))
    plain = losses.ContrastiveLoss()
    assert np.abs(numbers(plain.call(LABELS, x)) - numbers(loss.call(LABELS, x))).max() > 0.01
    with pytest.raises(ValueError, match=r"importance=0\.5, expected a function or None"):
        losses.ContrastiveLoss(importance=0.5)


def test_importance_comes_after_the_miner():
    seen = []

    def miner(pairs):
        seen.append(pairs)
        return pairs._replace(negative=0.0 * pairs.negative)

    weights = importance.ImportanceWeights(importance.group(COUNTS, classes_per_batch=2, examples_per_class=2))
    x = np.random.default_rng(0).normal(size=(9, 4)).astype("float32")
    found = losses.ContrastiveLoss(miner=miner, importance=weights).call(LABELS, x)
    np.testing.assert_array_equal(numbers(seen[0].positive), numbers(all_pairs().positive))
    assert numbers(seen[0].negative).max() == 1
    w = numbers(weights(all_pairs()).positive)
    d = ((x[:, None] - x) ** 2).sum(-1)
    np.testing.assert_allclose(numbers(found), (w * d).sum(1) / (w > 0).sum(1), rtol=1e-4)


def test_the_induced_lambda_makes_the_balanced_loss_the_contrastive_loss():
    counts = np.array([3, 2, 4])
    lam = importance.induced_lambda(counts[:, None], counts, classes=3)
    for a, n in itertools.permutations(range(3), 2):
        assert lam[a, n] / (3 - 1) * (counts[a] - 1) / counts[n] == pytest.approx(1.0)
    assert importance.induced_lambda(5, 5, classes=101) == pytest.approx(125)
    assert importance.induced_lambda(5, 5, classes=101, eta=0.2) == pytest.approx(25)
    with pytest.raises(ValueError, match="a class of 1 examples as anchors, expected 2"):
        importance.induced_lambda([1, 4], 4, classes=2)


UNEVEN = np.random.default_rng(1).permutation(np.repeat(np.arange(6), [2, 3, 4, 6, 9, 14]))
FEATURES = np.random.default_rng(2).normal(size=(len(UNEVEN), 3)) + 0.5 * UNEVEN[:, None]
DESIGNS = {
    "group": samplers.GroupSampler(classes_per_batch=3, examples_per_class=2, seed=4),
    "pk": samplers.PKSampler(classes_per_batch=2, examples_per_class=2, seed=4),
    "p-random": samplers.PairSampler(pairs_per_batch=12, positive_fraction=0.7, seed=4),
    "uniform": samplers.UniformSampler(batch_size=8, seed=4),
}


def slopes(sampler, loss, batches):
    """`(batches, 3, 2)`: d loss / d A of the batches that a sampler draws, for embeddings features @ A."""
    rows = np.stack(list(sampler.index_batches(UNEVEN).take(batches).as_numpy_iterator()))
    start = keras.ops.convert_to_tensor(np.eye(3, 2, dtype="float32"))

    def slope(batch):
        labels, features = batch
        return slope_of(lambda a: loss(labels, keras.ops.matmul(features, a)), start)

    batches = UNEVEN[rows].astype("int32"), FEATURES[rows].astype("float32")
    found = compiled(lambda *parts: keras.ops.map(slope, parts))(*map(keras.ops.convert_to_tensor, batches))
    return numbers(found).astype("float64")


@pytest.mark.parametrize("name", DESIGNS)
def test_the_mean_gradient_of_batches_is_the_full_gradient_with_weights_and_is_not_without(name):
    sampler = DESIGNS[name]
    counts = dict(enumerate(np.bincount(UNEVEN).tolist()))
    options = {"class_counts": counts, "negatives_per_positive": 8.0, "margin": 3.0, "pairing": sampler.pairing}
    weighed = losses.BalancedContrastiveLoss(importance=sampler.importance(UNEVEN), **options)
    whole = losses.BalancedContrastiveLoss(class_counts=counts, negatives_per_positive=8.0, margin=3.0)
    full = gradient(
        lambda a: whole(UNEVEN, keras.ops.matmul(keras.ops.convert_to_tensor(FEATURES.astype("float32")), a)),
        np.eye(3, 2, dtype="float32"),
    )

    def distance(found):
        """The largest distance of the mean gradient from the full one, in standard errors."""
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        return np.max(np.abs(found.mean(axis=0) - full) / error)

    assert distance(slopes(sampler, weighed, 4000)) < 3.5
    if name != "uniform":  # Its weights are 1.
        assert distance(slopes(sampler, losses.BalancedContrastiveLoss(**options), 4000)) > 10
