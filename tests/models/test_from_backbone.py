"""Any network as an embedding: its own input scaling, pooling, frozen batch normalization, files."""

from functools import partial

import keras
import numpy as np
import pytest

import tfdml
from tfdml.models import GeM, from_backbone

SMALL = partial(from_backbone, weights=None, input_shape=(32, 32, 3))
rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (8, 32, 32, 3)).astype("uint8")
LABELS = np.repeat(np.arange(4), 2)


def own_network():
    """Two convolutions with batch normalization, from pixels to feature maps."""
    pixels = keras.Input((32, 32, 3))
    x = keras.layers.Rescaling(1 / 255)(pixels)
    x = keras.layers.Conv2D(4, 3, strides=4)(x)
    x = keras.layers.BatchNormalization()(x)
    return keras.Model(pixels, keras.layers.Conv2D(6, 3)(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["VGG16", "MobileNetV2", "ResNet50V2"])
def test_a_network_of_keras_applications_gets_pixels_as_it_expects_them(name):
    model = SMALL(name, dim=None, pooling="max", normalize=False)
    modules = {"VGG16": "vgg16", "MobileNetV2": "mobilenet_v2", "ResNet50V2": "resnet_v2"}
    module = getattr(keras.applications, modules[name])
    features = model.get_layer("backbone").predict(module.preprocess_input(IMAGES.astype("float32")), verbose=0)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), features.max(axis=(1, 2)), rtol=1e-4, atol=1e-5)


POOLED = {  # over the axes of places or tokens
    "avg": lambda x, axes: x.mean(axes),
    "max": lambda x, axes: x.max(axes),
    "avg+max": lambda x, axes: x.mean(axes) + x.max(axes),
    "gem": lambda x, axes: (np.maximum(x.astype("float64"), 1e-6) ** 3).mean(axes) ** (1 / 3),
}


def test_generalized_mean_pooling_with_one_is_the_average_and_learns_its_exponent():
    x = rng.uniform(0.1, 2.0, (4, 3, 3, 5)).astype("float32")
    layer = GeM(p=1.0)
    np.testing.assert_allclose(layer(x), x.mean(axis=(1, 2)), rtol=1e-5)
    assert [weight.name for weight in layer.trainable_weights] == ["p"]
    large = GeM.from_config({**layer.get_config(), "p": 200.0})
    np.testing.assert_allclose(large(x), x.max(axis=(1, 2)), rtol=0.02)
    with pytest.raises(ValueError, match="Received p=0 and epsilon=1e-06, expected numbers above 0"):
        GeM(p=0)


@pytest.mark.slow
@pytest.mark.parametrize("freeze", [True, False])
def test_frozen_batch_normalization_stays_as_it_is(freeze):
    model = from_backbone(own_network(), dim=8, freeze_batch_norm=freeze)
    norm = next(layer for layer in model.get_layer("backbone").layers if "batch" in layer.name)
    before = [weight.numpy() for weight in norm.weights]
    model.compile("adam", loss=tfdml.losses.MultiSimilarityLoss())
    model.fit(IMAGES, LABELS, batch_size=8, verbose=0)
    assert all((weight.numpy() == old).all() for weight, old in zip(norm.weights, before, strict=True)) == freeze


@pytest.mark.slow
def test_it_trains_has_unit_vectors_and_comes_back_from_its_file(tmp_path):
    model = from_backbone(own_network(), dim=8, pooling="gem")
    model.compile("adam", loss=tfdml.losses.MultiSimilarityLoss())
    model.fit(IMAGES, LABELS, batch_size=8, verbose=0)
    found = model.predict(IMAGES, verbose=0)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.ones(8), rtol=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again, tfdml.models.EmbeddingModel)
    np.testing.assert_array_equal(again.predict(IMAGES, verbose=0), found)
    assert [layer.name for layer in again.layers] == ["images", "backbone", "pooling", "embedding", "float32", "unit"]


@keras.saving.register_keras_serializable("tests")
class SavedBySettings(keras.Model):
    """A network whose config has its arguments, not its layers, as backbones of KerasHub have it."""

    def __init__(self, **options):
        inner = own_network()
        super().__init__(inner.input, inner.output, **options)

    def get_config(self):
        return {"name": self.name}


def test_its_file_keeps_what_is_frozen_inside_a_part_that_is_saved_by_its_settings(tmp_path):
    model = from_backbone(SavedBySettings(), dim=4, freeze_batch_norm=True)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert len(again.trainable_variables) == len(model.trainable_variables)
    assert not any("batch_normalization" in variable.path for variable in again.trainable_variables)
    np.testing.assert_array_equal(again.predict(IMAGES, verbose=0), model.predict(IMAGES, verbose=0))


def test_embeddings_are_float32_in_mixed_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = from_backbone(own_network(), dim=8, pooling="gem")
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.predict(IMAGES, verbose=0).dtype == np.float32


def test_weights_that_cannot_be_downloaded_say_what_to_do(monkeypatch):
    def offline(**options):
        raise OSError("URL fetch failure")

    offline.__name__ = "OfflineNet"
    with pytest.raises(OSError, match=r"weights of OfflineNet could not be loaded .*pass weights='path/to/file.h5'"):
        from_backbone(offline)
    with pytest.raises(OSError, match=r"^URL fetch failure"):
        from_backbone(offline, weights="mine.h5")


IMAGE, TEXT = keras.Input((32, 32, 3), name="images"), keras.Input((4,), name="text")
WRONG = [
    ("Input size must be at least 32x32", "VGG16", {"input_shape": (8, 8, 3)}),  # and not a failed download
    ("Received backbone=5, expected the name of a network", 5, {}),
    ("Received backbone='resnet50', expected 'ResNet50', or the folder", "resnet50", {}),
    ("Received backbone='efficientnet_lite0', expected 'EfficientNetLite0', or", "efficientnet_lite0", {}),
    (r"Received pooling='mean', expected one of 'avg', 'max', .*, 'token'", own_network, {"pooling": "mean"}),
    (r"features of shape \(None, 6, 6, 6\) and pooling='token', expected", own_network, {"pooling": "token"}),
    ("a backbone with the inputs images, text, expected images", lambda: keras.Model([IMAGE, TEXT], [IMAGE, TEXT]), {}),
    (r"several outputs, of shapes .*\. Pass keras.Model\(", lambda: keras.Model(IMAGE, {"a": IMAGE, "b": IMAGE}), {}),
]


@pytest.mark.parametrize(("message", "backbone", "options"), WRONG)
def test_what_is_wrong_is_said_at_the_call(message, backbone, options):
    with pytest.raises(ValueError, match=message):
        from_backbone(backbone() if callable(backbone) else backbone, **options)


@pytest.mark.parametrize(("pooling", "pooled"), [*POOLED.items(), ("token", lambda x, _: x[:, 0])])
def test_features_and_tokens_are_pooled(pooling, pooled, tmp_path):
    if pooling in POOLED:
        network = own_network()
        model = from_backbone(network, dim=None, pooling=pooling, normalize=False)
        expected = pooled(network.predict(IMAGES, verbose=0), (1, 2))
        np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, rtol=1e-4, atol=1e-5)
    images = keras.Input((32, 32, 3), name="pixels")
    tokens = keras.Model({"pixels": images}, keras.layers.Reshape((16, 192))(images))
    model = from_backbone(tokens, dim=None, pooling=pooling, normalize=False)
    found = model.predict(IMAGES, verbose=0)
    np.testing.assert_allclose(found, pooled(IMAGES.reshape(8, 16, 192), 1), rtol=1e-4)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras").predict(IMAGES, verbose=0), found)


def test_a_backbone_may_have_a_head_leave_sizes_open_have_no_input_yet_return_vectors_or_take_no_images():
    head = keras.Sequential([keras.layers.Dense(5, "relu"), keras.layers.Dense(3)])
    assert from_backbone(own_network(), head=head).output_shape == (None, 3)
    anything = keras.Input((None, None, 3))
    model = from_backbone(keras.Model(anything, keras.layers.Conv2D(4, 3)(anything)), dim=2, input_shape=(20, 30, 3))
    assert model.input_shape == (None, 20, 30, 3)
    assert from_backbone(keras.Sequential([keras.layers.Conv2D(4, 3)]), dim=2).input_shape == (None, 224, 224, 3)
    pooled = keras.Model(anything, keras.layers.GlobalAveragePooling2D()(anything))
    assert from_backbone(pooled, dim=4, input_shape=(8, 8, 3)).output_shape == (None, 4)
    vectors = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    assert from_backbone(vectors, dim=2).input_shape == (None, 5)


def test_pixels_are_scaled_by_a_function():
    network = own_network()
    model = from_backbone(network, dim=None, normalize=False, scale=keras.layers.Rescaling(0.5, offset=3))
    expected = network.predict(IMAGES * 0.5 + 3, verbose=0).mean(axis=(1, 2))
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, rtol=1e-4, atol=1e-5)
