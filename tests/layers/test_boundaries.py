"""Boundaries that the margin loss learns."""

import keras
import numpy as np
import pytest

from tests.backend import compiled, fast, gradient_and_values, numbers
from tests.layers.fitted import embedding_model
from tests.losses.loops import distance_between, others_of
from tfdml import layers, losses, miners, pairs
from tfdml.layers.boundaries import same_class

pytestmark = pytest.mark.backends

LABELS = np.array([7, 7, 7, 2, 2, 40, 40, 40])


def batch(dim=4):
    x = np.random.default_rng(0).standard_normal((len(LABELS), dim))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")


def margin_by_loops(x, beta, nu=0.0, margin=0.2):
    """The equation, with a boundary for each anchor."""
    costs = []
    for a in range(len(x)):
        positives, negatives = others_of(a, LABELS)
        d = {r: distance_between(x[a], x[r], "euclidean") for r in positives + negatives}
        costs.append(
            [max(0, margin + d[p] - beta[a]) for p in positives] + [max(0, margin + beta[a] - d[n]) for n in negatives]
        )
    active = sum(cost > 0 for row in costs for cost in row)
    return np.array([len(x) * sum(row) / active + nu * b for row, b in zip(costs, beta, strict=True)])


def test_a_boundary_is_the_sum_of_its_parts():
    boundaries = layers.Boundaries(1.1, class_ids=[2, 7, 40, 7], examples=10)
    boundaries.base.assign(1.0)
    boundaries.of_classes.assign([0.1, 0.2, 0.3])  # of classes 2, 7 and 40
    boundaries.of_examples.assign(np.arange(10) / 100)
    labels = np.stack([LABELS, [9, 8, 7, 6, 5, 4, 3, 2]], axis=1)
    made = pairs.all_pairs(labels, batch(), match=same_class)
    expected = 1.0 + np.array([0.2, 0.2, 0.2, 0.1, 0.1, 0.3, 0.3, 0.3]) + np.arange(9, 1, -1) / 100
    np.testing.assert_allclose(numbers(boundaries(made)), expected, rtol=1e-6)


@pytest.mark.slow
def test_values_with_learned_boundaries_are_those_of_the_equation():
    boundaries = layers.Boundaries(1.2, class_ids=LABELS)
    boundaries.of_classes.assign([-0.3, 0.1, 0.2])
    beta = 1.2 + np.array([0.1, 0.1, 0.1, -0.3, -0.3, 0.2, 0.2, 0.2])
    loss, x = losses.MarginLoss(boundary=boundaries, nu=0.3), batch()
    expected = margin_by_loops(x.astype("float64"), beta, nu=0.3)
    np.testing.assert_allclose(numbers(compiled(lambda v: loss.call(LABELS, v))(x)), expected, rtol=1e-5)


def test_boundaries_start_at_the_fixed_one_and_the_paper_gives_its_value():
    x = keras.ops.convert_to_tensor(batch())

    def evaluated(loss):
        return fast(lambda v: gradient_and_values(lambda w: (loss(LABELS, w), loss.call(LABELS, w)), v))(x)

    learned = losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS))
    for ours, fixed in zip(evaluated(learned), evaluated(losses.MarginLoss()), strict=True):
        np.testing.assert_allclose(numbers(ours), numbers(fixed), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_a_boundary_of_its_own_for_every_example():
    boundaries = layers.Boundaries(examples=len(LABELS))
    loss = losses.MarginLoss(boundary=boundaries, nu=0.5, miner=miners.BalancedPairs(seed=0))
    model = embedding_model(loss)
    labels = np.stack([LABELS, np.arange(len(LABELS))], axis=1)
    model.fit(batch(), labels, batch_size=len(LABELS), epochs=3, verbose=0, shuffle=False)
    assert (numbers(boundaries.of_examples.value) != 0).all()
    plain = losses.MarginLoss().call(LABELS, batch())
    with_fresh = losses.MarginLoss(boundary=layers.Boundaries(examples=len(LABELS))).call(labels, batch())
    np.testing.assert_allclose(numbers(with_fresh), numbers(plain), rtol=1e-6)


def test_labels_that_do_not_fit_the_boundaries_are_refused():
    x = batch()
    of_examples = losses.MarginLoss(boundary=layers.Boundaries(examples=4))
    with pytest.raises(ValueError, match=r"labels of shape \(8,\), expected \(batch, 2\)"):
        of_examples(LABELS, x)
    with pytest.raises(ValueError, match="Received label 4, which examples does not cover"):
        of_examples(np.stack([LABELS, np.arange(8)], axis=1), x)
    with pytest.raises(ValueError, match="Received label 40, which class_ids does not cover"):
        losses.MarginLoss(boundary=layers.Boundaries(class_ids=[2, 7]))(LABELS, x)


@pytest.mark.parametrize(
    "loss",
    [
        lambda: losses.MarginLoss(boundary=layers.Boundaries()),
        lambda: losses.TripletLoss(negatives=miners.RandomNegatives(seed=0)),
        lambda: losses.ContrastiveLoss(miner=miners.compose(miners.BalancedPairs(seed=0))),
        lambda: losses.RobustLoss(
            losses.MarginLoss(boundary=layers.Boundaries()), uncertainty=losses.uncertainty.TopK(4)
        ),
    ],
    ids=["boundaries", "random negatives", "composition", "robust"],
)
def test_a_plain_keras_model_is_told_that_it_would_not_train_the_loss(loss):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    model.compile("sgd", loss=loss())
    with pytest.raises(ValueError, match=r"in a plain Functional.*tfdml.models.EmbeddingModel"):
        model.fit(batch(), LABELS, batch_size=len(LABELS), verbose=0)
    assert np.isfinite(numbers(loss()(LABELS, batch())))  # by itself it works
