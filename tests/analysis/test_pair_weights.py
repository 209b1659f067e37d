"""Losses as weights of pairs."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, float64, gradient
from tests.losses.rows import CHECKED, COLUMNS, DEFAULTS, ROWS, having, lacking, law
from tfdml import analysis, losses, pairs

on_every_backend = pytest.mark.backends

LABELS = np.array([0, 0, 1, 1, 1, 7, 7, 7])
X = np.random.default_rng(3).standard_normal((8, 5))
POSITIVE = (LABELS[:, None] == LABELS) & ~np.eye(8, dtype=bool)
COSINES = (X @ X.T) / np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(X, axis=1))


def unit(x):
    return x / keras.ops.sqrt(keras.ops.sum(keras.ops.square(x), axis=1, keepdims=True))


def gradient_of_weighted_similarities(signed):
    """The gradient of sum_ij signed_ij s_ij with fixed weights."""

    def weighted(v):
        return keras.ops.sum(
            keras.ops.convert_to_tensor(signed) * keras.ops.matmul(unit(v), keras.ops.transpose(unit(v)))
        )

    return gradient(weighted, X)


# On JAX, which compiles each operation by itself, one loss of each kind: over pairs, triplets, ranks and histograms.
KINDS = ["contrastive", "multi-similarity", "triplet", "SmoothAP", "histogram"]
SOME = lacking(CHECKED, COLUMNS) if BACKEND == "tensorflow" else {name: DEFAULTS[name] for name in KINDS}


@on_every_backend
@law(SOME)
def test_weighted_similarities_have_the_gradient_of_the_loss(row):
    weights = analysis.pair_weights(row.loss, X, LABELS)
    np.testing.assert_allclose(weights, weights.T)
    with float64():
        expected = gradient(lambda v: row.loss(LABELS, unit(v)), X)
        ours = gradient_of_weighted_similarities(np.where(POSITIVE, -weights, weights))
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@law(having(ROWS, COLUMNS))
def test_a_loss_that_is_no_function_of_inner_products_is_refused(row):
    with pytest.raises(ValueError, match=r"same inner products|of dimension 8"):
        analysis.pair_weights(row.loss, X, LABELS)


@on_every_backend
def test_contrastive_weights_are_steps():
    weights = analysis.pair_weights(losses.CosineContrastiveLoss(threshold=0.1, reduction="sum"), X, LABELS)
    expected = np.where(POSITIVE | (COSINES > 0.1), 1 / 7, 0.0) * (1 - np.eye(8))
    np.testing.assert_allclose(weights, expected, atol=1e-6)


@on_every_backend
def test_binomial_deviance_weights_are_those_of_its_equations():
    weights = analysis.pair_weights(losses.BinomialDevianceLoss(alpha=2.0, beta=5.0, reduction="sum"), X, LABELS)
    positives, negatives = POSITIVE.sum(1, keepdims=True), 8 - 1 - POSITIVE.sum(1, keepdims=True)
    of_positives = 2.0 / (1 + np.exp(-2.0 * (0.5 - COSINES))) / positives
    of_negatives = 5.0 / (1 + np.exp(-5.0 * (COSINES - 0.5))) / negatives
    by_anchor = np.where(POSITIVE, of_positives, of_negatives) * (1 - np.eye(8))
    np.testing.assert_allclose(weights, (by_anchor + by_anchor.T) / 2, rtol=1e-4, atol=1e-6)


def test_the_scale_of_embeddings_does_not_matter():
    loss = losses.ContrastiveLoss()
    np.testing.assert_allclose(
        analysis.pair_weights(loss, 10 * X, LABELS), analysis.pair_weights(loss, X, LABELS), atol=1e-9
    )


@on_every_backend
def test_a_match_says_which_weights_are_of_positives():
    loss = losses.CosineContrastiveLoss(match=lambda a, b: a[:, None] // 10 == b // 10)
    expected = analysis.pair_weights(losses.CosineContrastiveLoss(), X, LABELS)
    np.testing.assert_allclose(analysis.pair_weights(loss, X, 10 * LABELS + np.arange(8)), expected)


def test_a_list_of_pairs_weighs_its_pairs_only():
    loss = losses.CosineContrastiveLoss(threshold=-1.0, pairing=pairs.consecutive_pairs)
    weights = analysis.pair_weights(loss, X, LABELS)
    assert np.argwhere(weights > 1e-6).tolist() == [[0, 1], [1, 0], [2, 3], [3, 2], [4, 5], [5, 4], [6, 7], [7, 6]]


@on_every_backend
def test_any_function_of_labels_and_embeddings_has_weights():
    weights = analysis.pair_weights(
        lambda labels, x: keras.ops.sum(keras.ops.matmul(x, keras.ops.transpose(x))), X, LABELS
    )
    np.testing.assert_allclose(weights, np.where(POSITIVE, -1.0, 1.0) * (1 - np.eye(8)), atol=2e-6)


def test_the_plot_has_a_panel_for_each_loss_with_both_kinds_of_pairs(tmp_path):
    shown = {"contrastive": losses.CosineContrastiveLoss(), "triplet": losses.TripletLoss(), "RAW": losses.RAWLoss()}
    figure = analysis.plot_pair_weights(shown, X, LABELS)
    assert [axes.get_title() for axes in figure.axes] == list(shown)
    positive, negative = figure.axes[0].lines
    assert len(positive.get_xdata()) == POSITIVE.sum() // 2
    assert len(negative.get_xdata()) == (8 * 7 - POSITIVE.sum()) // 2
    np.testing.assert_allclose(positive.get_ydata(), 1.0, atol=1e-5)
    figure.savefig(tmp_path / "weights.png")
