"""Variance of the gradient of a negative pair under noise, by the distance of the pair."""

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require, require_whole

_DRAWS = 10_000


def gradient_variance(
    distances: npt.ArrayLike, *, dim: int = 128, noise: npt.ArrayLike = 0.1, seed: int = 0
) -> np.ndarray:
    """The variance of the direction that pushes a negative pair apart, with noise on the anchor.

    tr Cov[h' / |h'|] = 1 - |E[h' / |h'|]|^2, where h' = (a + z) / |a + z| - n and z ~ N(0, sigma^2 I)

    a and n are points of the unit sphere at a given distance. A covariance matrix is positive semi-definite, so its
    trace is its nuclear norm; directions have norm 1. A variance near 1 means a random direction, a variance near 0 a
    certain one.

    Example: the gradient pushes a near negative in a random direction, a far one in a certain one.

        >>> tfdml.analysis.gradient_variance([0.01, 0.5, 1.4], dim=128, noise=0.1).round(1)
        array([0.8, 0.7, 0.3])

    Args:
        distances: array of distances in [0, 2], any shape.
        dim: number of dimensions of the space, 3 or more.
        noise: standard deviation sigma of each coordinate of z, above 0: a number or an array. The norm of z is
            about sigma sqrt(dim).
        seed: of the 10,000 draws of z, a whole number of at least 0. All distances have the same draws, so that curves
            are smooth. The standard error of a result is at most about 0.01.

    Returns:
        Array of the shape of `noise`, followed by the shape of `distances`, in [0, 1].

    E[h' / |h'|] lies in the plane of a and n, by symmetry: three numbers per draw are enough, and time and memory do
    not grow with `dim`.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 4 and
    figure 3a. The paper writes h + z. Its figure has less variance at distance 0 for more noise, "due to the spherical
    projection imposed by the normalization", and so the noise is on one embedding, before its normalization: h + z
    itself, or noise on both embeddings, would have variance 1 at distance 0 for all noise.
    """
    distances, noise = np.asarray(distances, dtype="float64"), np.asarray(noise, dtype="float64")
    is_on_sphere = bool(((distances >= 0) & (distances <= 2)).all())
    require(is_on_sphere, f"distances={distances}", "distances on the unit sphere, in [0, 2]")
    require(bool(((noise > 0) & np.isfinite(noise)).all()), f"noise={noise}", "standard deviations above 0")
    require_whole("dim", dim, 3)
    generator = np.random.default_rng(seed)
    z = np.stack([*generator.standard_normal((2, _DRAWS)), np.sqrt(generator.chisquare(dim - 2, _DRAWS))])
    results = [_variance(d, sigma * z) for sigma in noise.flat for d in distances.flat]
    return np.reshape(results, noise.shape + distances.shape)


def _variance(d, z):
    """1 - |mean direction|^2, in the plane where n is (1, 0)."""
    point = np.array([1 - d**2 / 2, d * np.sqrt(1 - d**2 / 4), 0.0])[:, None] + z
    h = point / np.linalg.norm(point, axis=0) - np.array([1.0, 0.0, 0.0])[:, None]
    mean = np.mean(h[:2] / np.linalg.norm(h, axis=0), axis=1)
    return 1.0 - mean @ mean
