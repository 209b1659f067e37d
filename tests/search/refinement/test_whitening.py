"""Whitening against scikit-learn and its laws."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from tfdml.search import Whitening


def stretched(n=400, dim=6, seed=0):
    """Vectors with a mean, and variances from 1 to 100 along random directions."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return (rng.normal(size=(n, dim)) * np.linspace(1, 10, dim) @ basis + rng.normal(size=dim)).astype("float32")


def without_length(whitening, x):
    return (x - whitening.mean) @ whitening.projection


@pytest.mark.parametrize("dim", [6, 3])
def test_it_is_the_whitening_of_scikit_learn_and_of_length_1(dim):
    x = stretched()
    pca = PCA(dim, whiten=True).fit(x[:300])
    expected = pca.transform(x[300:])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = Whitening.learn(x[:300], dim=dim)(x[300:])
    assert found.dtype == np.float32
    signs = np.sign((found * expected).sum(axis=0))  # the sign of a direction is free
    np.testing.assert_allclose(found * signs, expected, atol=1e-5)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_shrinkage_moves_the_variances_towards_their_mean(shrinkage):
    x = stretched()
    variances = np.sort(np.linalg.eigvalsh(np.cov(x.T.astype(float), bias=True)))[::-1]
    whitening = Whitening.learn(x, shrinkage=shrinkage)
    expected = variances / ((1 - shrinkage) * variances + shrinkage * variances.mean())
    np.testing.assert_allclose(without_length(whitening, x).var(axis=0), expected, rtol=1e-4)


def test_full_shrinkage_only_subtracts_the_mean():
    x = stretched()
    centered = x - x.mean(axis=0)
    centered /= np.linalg.norm(centered, axis=1, keepdims=True)
    found = Whitening.learn(x, shrinkage=1.0)(x)
    np.testing.assert_allclose(found @ found.T, centered @ centered.T, atol=1e-4)


def test_directions_without_variance_are_left_out_or_need_shrinkage():
    x = np.concatenate([stretched(dim=3), np.full((400, 2), 7.0, "float32")], axis=1)
    assert Whitening.learn(x)(x).shape == (400, 3)
    assert Whitening.learn(x, shrinkage=0.1)(x).shape == (400, 5)
    with pytest.raises(ValueError, match="dim=4 of 3 directions with a variance, expected fewer"):
        Whitening.learn(x, dim=4)


def test_blocks_of_rows_give_the_same(monkeypatch):
    x = stretched()
    whole = Whitening.learn(x)
    monkeypatch.setattr("tfdml.search.refinement.whitening._ROWS", 64)
    np.testing.assert_allclose(np.abs(Whitening.learn(x).projection), np.abs(whole.projection), rtol=1e-3, atol=1e-5)
