"""Learners in the columns of one embedding: nested, cascaded, boosted, diverse. Values are rows of the contract."""

from functools import partial

import keras
import numpy as np
import pytest

from tests.backend import gradient, numbers
from tests.losses import loops
from tfdml import layers, losses, models, pairs

pytestmark = pytest.mark.backends

LABELS = np.repeat(np.arange(4), 3)
X = np.random.default_rng(0).standard_normal((12, 8)).astype("float32")


def test_prefixes_of_proxies_are_proxies():
    base = losses.CosFaceLoss(pairing=layers.Proxies(4, seed=0), scale=8.0)
    found = numbers(losses.MatryoshkaLoss(base, dims=(2, 8)).call(LABELS, X))
    expected = 0
    for dim in (2, 8):
        against = pairs.pairs_with(LABELS, X[:, :dim], np.arange(4), numbers(base.proxies.vectors)[:, :dim])
        expected = expected + numbers(base.on_pairs(against))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_first_columns_receive_the_gradient_of_every_prefix():
    slopes = [
        np.abs(gradient(lambda v, dims=dims: losses.MatryoshkaLoss(losses.ContrastiveLoss(), dims=dims)(LABELS, v), X))
        for dims in ((2,), (2, 8))
    ]
    assert not slopes[0][:, 2:].any()
    assert (slopes[1] > 0).all()


def test_the_second_learner_of_a_cascade_trains_on_what_the_first_one_finds_hard():
    easy = np.eye(4, dtype="float32")[LABELS]  # the first learner separates the classes
    base = losses.ContrastiveLoss(positive_margin=0.1)
    loss = losses.CascadeLoss(base, dims=(4, 4), shares=(1.0,))
    slope = gradient(lambda v: loss(LABELS, v), np.concatenate([easy, 1 + 0.1 * X[:, :4]], axis=1))
    assert not slope.any()
    alike = easy.copy()
    alike[0] = alike[3]  # and now confuses one row with another class
    slope = gradient(lambda v: loss(LABELS, v), np.concatenate([alike, 1 + 0.1 * X[:, :4]], axis=1))
    assert np.abs(slope[[0, 3], 4:]).any(axis=1).all()
    assert not slope[6:, 4:].any()


def test_a_cascade_of_three_learners_is_that_of_the_loops():
    loss = losses.CascadeLoss(losses.ContrastiveLoss(negative_margin=1.5), dims=(2, 2, 4), shares=(0.5, 0.2))
    cost = partial(loops.contrastive_pair, negative_margin=1.5)
    expected = loops.cascade(LABELS, X.astype(float), cost, (2, 2, 4), (0.5, 0.2))
    np.testing.assert_allclose(numbers(loss.call(LABELS, X)), expected, rtol=1e-5)


def test_pairs_that_tie_for_the_last_place_are_all_kept():
    x = np.tile(np.eye(4, dtype="float32")[LABELS], 2)
    base = losses.ContrastiveLoss(negative_margin=2.0)
    one, other = (losses.CascadeLoss(base, dims=(4, 4), shares=(h,)) for h in (0.1, 1.0))
    np.testing.assert_array_equal(numbers(one.call(LABELS, x)), numbers(other.call(LABELS, x)))


def test_the_ensemble_of_boosted_learners_is_the_cosine_of_their_scaled_concatenation():
    loss = losses.BoostedLoss(dims=(2, 2, 4))
    np.testing.assert_allclose(sum(loss.shares), 1)
    running = 0
    for m, part in enumerate(loops.learners(X, loss.dims), start=1):
        running = running + 2 / (m + 1) * (loops.cosines(part) - running)
    scaled = [np.sqrt(s) * part for s, part in zip(loss.shares, loops.learners(X, loss.dims), strict=True)]
    np.testing.assert_allclose(loops.cosines(np.concatenate(scaled, axis=1)), running, atol=1e-6)


def test_learners_that_agree_on_every_example_are_pushed_apart():
    x = np.concatenate([X[:, :4], X[:, :4]], axis=1)
    base = losses.ContrastiveLoss()
    apart, free = (losses.DivergenceLoss(base, dims=(4, 4), weight=w) for w in (1.0, 0.0))
    np.testing.assert_allclose(numbers(apart.call(LABELS, x)) - numbers(free.call(LABELS, x)), 1.0, rtol=1e-4)
    slopes = [gradient(lambda v, loss=loss: loss(LABELS, v), x + 0.1 * X) for loss in (apart, free)]
    assert np.abs(slopes[0] - slopes[1]).max() > 1e-4


def test_biases_of_regressors_have_a_norm_of_at_most_one():
    regressors = layers.Regressors((2, 2, 4), units=4, seed=0)
    for number, (_, bias, _, last_bias) in enumerate(regressors.networks, start=1):
        bias.assign(number * np.linspace(-0.2, 0.3, bias.shape[0]))
        last_bias.assign(number * np.linspace(2.0, -1.0, last_bias.shape[0]))
    loss = losses.AdversarialLoss(losses.ContrastiveLoss(), dims=(2, 2, 4), regressors=regressors, weight=2.0)
    expected = loops.adversarial(LABELS, X.astype(float), loops.contrastive, (2, 2, 4), regressors, weight=2.0)
    np.testing.assert_allclose(numbers(loss.call(LABELS, X)), expected, rtol=1e-5)


@pytest.mark.slow
def test_learners_decrease_what_the_regressors_increase():
    keras.utils.set_random_seed(0)
    regressors = layers.Regressors((4, 4), units=16, seed=1)
    loss = losses.AdversarialLoss(losses.ContrastiveLoss(), dims=(4, 4), regressors=regressors, weight=100.0)
    inputs = keras.Input((8,))
    dense = keras.layers.Dense(8, kernel_initializer="identity")
    model = models.EmbeddingModel(inputs, dense(inputs))
    model.compile(keras.optimizers.Adam(0.02), loss=loss)
    assert [layer.name for layer in model.loss_layers] == [regressors.name]

    def term():
        parts = [part.astype("float32") for part in loops.learners(numbers(model(X)), (4, 4))]
        return numbers(regressors.similarity(parts, trained=False)).mean()

    before = term()
    dense.trainable = False
    model.compile(keras.optimizers.Adam(0.02), loss=loss)
    model.fit(X, LABELS, batch_size=12, epochs=20, verbose=0, shuffle=False)
    regressed = term()
    assert regressed > 1.3 * before
    dense.trainable, regressors.trainable = True, False
    model.compile(keras.optimizers.Adam(0.02), loss=loss)
    model.fit(X, LABELS, batch_size=12, epochs=20, verbose=0, shuffle=False)
    assert term() < 0.7 * regressed


ENSEMBLES = [
    losses.CascadeLoss(losses.ContrastiveLoss(), dims=(4, 2, 1)),
    losses.BoostedLoss(dims=(4, 3)),
    losses.DivergenceLoss(losses.NTXentLoss(), dims=(3, 3)),
    losses.AdversarialLoss(losses.NTXentLoss(), dims=(3, 3)),
]


@pytest.mark.parametrize("loss", ENSEMBLES, ids=lambda loss: loss.name)
def test_embeddings_of_another_dimension_are_refused(loss):
    expected = sum(loss.settings["dims"])
    with pytest.raises(ValueError, match=f"dimension 8 with dims=.*, expected dimension {expected}, the columns of"):
        loss(LABELS, X)


def test_prefixes_longer_than_the_embeddings_are_refused():
    with pytest.raises(ValueError, match=r"dimension 8 with dims=\(8, 16\), expected dims up to the dimension"):
        losses.MatryoshkaLoss(losses.NCALoss(), dims=(8, 16))(LABELS, X)
