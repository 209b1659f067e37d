"""A metric with a positive semidefinite matrix."""

import keras
import numpy as np
import pytest
from scipy.spatial.distance import cdist, mahalanobis

from tests.backend import XLA, numbers
from tfdml import layers, losses, models

pytestmark = pytest.mark.backends

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1], 6)
X = RNG.standard_normal((12, 4)).astype("float32")


def random_metric(**options):
    layer = layers.Mahalanobis(initializer=keras.initializers.RandomNormal(seed=1), **options)
    layer.build((None, 4))
    return layer


@pytest.mark.parametrize("rank", [None, 4, 2, 1])
def test_the_euclidean_distance_of_the_output_is_the_metric_of_scipy(rank):
    metric = random_metric(rank=rank)
    y = numbers(metric(X)).astype("float64")
    assert y.shape == (12, rank or 4)
    # SciPy calls the matrix the inverse of a covariance.
    expected = cdist(X, X, "mahalanobis", VI=metric.matrix)
    np.testing.assert_allclose(np.linalg.norm(y[:, None] - y, axis=-1), expected, rtol=1e-4, atol=1e-6)
    assert expected[0, 1] == pytest.approx(mahalanobis(X[0], X[1], metric.matrix), rel=1e-4)


@pytest.mark.parametrize("rank", [4, 2])
def test_the_matrix_is_symmetric_and_positive_semidefinite_of_the_rank(rank):
    values = np.linalg.eigvalsh(random_metric(rank=rank).matrix)
    assert (values >= -1e-9).all()
    assert (values > 1e-6).sum() == rank


def test_it_starts_as_the_identity_or_as_a_projection():
    np.testing.assert_array_equal(numbers(layers.Mahalanobis()(X)), X)
    projection = layers.Mahalanobis(rank=2, seed=3)
    projection.build((None, 4))
    np.testing.assert_allclose(projection.matrix @ projection.matrix, projection.matrix, atol=1e-6)


def test_a_normalized_trace_is_the_number_of_features_for_any_scale():
    metric = random_metric(rank=3, normalize_trace=True)
    before = numbers(metric(X))
    assert np.trace(metric.matrix) == pytest.approx(4)
    metric.weight.assign(7.0 * metric.weight)
    np.testing.assert_allclose(numbers(metric(X)), before, rtol=1e-4, atol=1e-6)


def objective(d):
    """What Xing et al. minimize: squared distances within classes beside distances between them."""
    same = LABELS[:, None] == LABELS
    return np.sum(d[same] ** 2) / np.sum(d[~same]) ** 2


@pytest.mark.slow
def test_a_model_learns_which_feature_tells_the_classes_and_its_file_has_it(tmp_path):
    x = X.copy()
    x[:, 2] += 3.0 * LABELS
    inputs = keras.Input((4,))
    metric = layers.Mahalanobis(normalize_trace=True)
    model = models.EmbeddingModel(inputs, metric(inputs))
    model.compile(keras.optimizers.Adam(0.1), loss=losses.XingLoss(), jit_compile=XLA)
    model.fit(x, LABELS, batch_size=12, epochs=30, verbose=0)
    d = cdist(x, x, "mahalanobis", VI=metric.matrix)
    assert objective(d) < 0.5 * objective(cdist(x, x))
    assert metric.matrix[2, 2] > 1.5 > metric.matrix[0, 0]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numbers(again(x)), numbers(model(x)))


def test_half_precision_features_stay_so():
    layer = layers.Mahalanobis(normalize_trace=True, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(layer(X).dtype) == "bfloat16"


def test_a_rank_out_of_range_is_refused():
    with pytest.raises(ValueError, match="Received rank=5 for 4 features, expected a rank from 1 to 4"):
        layers.Mahalanobis(rank=5)(X)


def test_the_matrix_of_a_layer_that_is_not_built_is_refused():
    with pytest.raises(ValueError, match="a layer that is not built"):
        layers.Mahalanobis().matrix  # noqa: B018
