"""The noise in a negative pair's gradient, against draws in all dimensions and where the answer is known."""

import numpy as np
import pytest

from tfdml import analysis


def by_draws(d, dim, sigma, draws):
    """The nuclear norm of the covariance of the direction, from its singular values."""
    generator = np.random.default_rng(1)
    negative, anchor = np.zeros(dim), np.zeros(dim)
    negative[0] = 1.0
    anchor[:2] = 1 - d**2 / 2, d * np.sqrt(1 - d**2 / 4)
    assert np.linalg.norm(anchor - negative) == pytest.approx(d)
    directions = np.zeros((draws, dim))
    for k in range(draws):
        noisy = anchor + sigma * generator.standard_normal(dim)
        h = noisy / np.linalg.norm(noisy) - negative
        directions[k] = h / np.linalg.norm(h)
    return np.linalg.norm(np.cov(directions.T), ord="nuc")


@pytest.mark.parametrize("dim", [3, 24])
@pytest.mark.parametrize("sigma", [0.05, 0.4])
@pytest.mark.parametrize("d", [0.0, 0.3, 1.4, 2.0])
def test_it_is_the_nuclear_norm_of_the_covariance_of_directions(d, sigma, dim):
    assert analysis.gradient_variance(d, dim=dim, noise=sigma) == pytest.approx(by_draws(d, dim, sigma, 4000), abs=0.03)


def test_it_is_between_0_and_1_and_falls_with_distance():
    found = analysis.gradient_variance(np.linspace(0, 2, 21), noise=[0.003, 0.03, 0.1, 1.0])
    assert found.shape == (4, 21)
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found, axis=1) < 0).all()


def test_more_noise_is_less_variance_at_distance_0_and_more_elsewhere():
    found = analysis.gradient_variance([0.0, 0.5, 1.0], noise=[0.01, 0.03, 0.1])
    assert (np.diff(found[:, 0]) < 0).all()
    assert (np.diff(found[:, 1:], axis=0) > 0).all()


def test_at_distance_0_the_anchor_turns_by_the_angle_of_the_noise():
    # In many dimensions z stands upright on the anchor, with norm sigma sqrt(dim), and |E h| = sin(half the angle).
    dim, sigma = 100_000, 0.005
    angle = np.arctan(sigma * np.sqrt(dim))
    assert analysis.gradient_variance(0.0, dim=dim, noise=sigma) == pytest.approx(1 - np.sin(angle / 2) ** 2, abs=1e-3)


def test_little_noise_leaves_the_direction_where_it_was():
    near, far = analysis.gradient_variance([0.0, 1.0], noise=1e-6)
    assert near == pytest.approx(1, abs=1e-3)
    assert far == pytest.approx(0, abs=1e-6)


def test_a_seed_gives_the_same_draws_and_another_seed_others():
    first, again, other = (analysis.gradient_variance([0.1, 0.5], seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_the_shape_is_that_of_noise_and_distances():
    assert analysis.gradient_variance(1.0).shape == ()
    assert analysis.gradient_variance(np.ones((2, 3)), noise=np.ones(4)).shape == (4, 2, 3)
