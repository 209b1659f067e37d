"""The small networks."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND
from tfdml import losses, models
from tfdml.networks.backbones import standardized

pytestmark = pytest.mark.backends

every_backbone = pytest.mark.parametrize("backbone", [models.plain_cnn, models.residual_cnn])


def make(backbone, policy="float32", **options):
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(policy)
    try:
        inputs = keras.Input((32, 32, 1), dtype="uint8")
        return models.EmbeddingModel(inputs, backbone(inputs, dim=16, widths=(4, 8), **options))
    finally:
        keras.mixed_precision.set_dtype_policy(before)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (6, 32, 32, 1), dtype="uint8")


@every_backbone
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_raw_pixels_become_unit_vectors_in_float32(backbone, policy, images):
    embeddings = make(backbone, policy).predict(images, verbose=0)
    assert embeddings.shape == (6, 16)
    assert embeddings.dtype == "float32"
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(("stem", "side"), [((), 16), ((4,), 8), ((4, 6), 4)])
def test_each_convolution_of_a_stem_halves_the_resolution(stem, side):
    model = make(models.residual_cnn, stem=stem)  # widths of 4 and 8: the second stage halves 32 pixels once
    assert model.get_layer(index=-2).kernel.shape == (side * side * 8, 16)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_pixels_of_any_type_are_standardized(dtype, images):
    inputs = keras.Input((32, 32, 1), dtype=dtype)
    found = keras.Model(inputs, standardized(inputs)).predict(images.astype(dtype), verbose=0)
    centered = images - images.mean(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(found, centered / centered.std(axis=(1, 2, 3), keepdims=True), atol=1e-4)


@every_backbone
def test_brightness_and_contrast_of_an_image_do_not_matter(backbone, images):
    model = make(backbone)
    dark = images // 4
    np.testing.assert_allclose(model.predict(3 * dark + 60, verbose=0), model.predict(dark, verbose=0), atol=1e-4)


@every_backbone
def test_a_constant_image_has_a_finite_embedding(backbone):
    black = np.zeros((2, 32, 32, 1), "uint8")
    assert np.isfinite(make(backbone).predict(black, verbose=0)).all()


@pytest.mark.slow
@every_backbone
def test_a_backbone_learns_a_batch_by_heart(backbone, images):
    model = make(backbone)
    eager = BACKEND == "tensorflow"  # which compiles a convolutional network for longer than it trains here
    model.compile(keras.optimizers.Adam(1e-2), loss=losses.MultiSimilarityLoss(), run_eagerly=eager)
    history = model.fit(images, np.array([0, 0, 1, 1, 2, 2]), epochs=15, batch_size=6, verbose=0).history["loss"]
    assert history[-1] < 0.6 * history[0]
