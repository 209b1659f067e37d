"""Backbones and presets of KerasHub, small and with weights at random: scale, pooling, files, what is missing."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml.models import from_backbone
from tfdml.networks.hub import with_image_shape

pytestmark = pytest.mark.slow  # the import of KerasHub alone takes seconds

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (8, 32, 32, 3)).astype("uint8")
LABELS = np.repeat(np.arange(4), 2)
SCALE, OFFSET = [0.01, 0.02, 0.03], [-1.0, -0.5, 0.5]


@pytest.fixture(scope="module")
def models():
    import keras_hub

    return keras_hub.models


def resnet(models):
    """One block of 64 channels, for images of any size."""
    return models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=[64],
        stackwise_num_blocks=[1],
        stackwise_num_strides=[1],
        block_type="basic_block",
    )


def vit(models):
    """A class token and 16 patches, 8 dimensions."""
    return models.ViTBackbone(
        image_shape=(32, 32, 3), patch_size=8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=16
    )


@pytest.fixture(scope="module")
def preset(models, tmp_path_factory):
    """A folder with a backbone and its image converter, and the backbone."""
    import keras_hub

    folder, network = tmp_path_factory.mktemp("preset"), vit(models)
    network.save_to_preset(folder)
    keras_hub.layers.ViTImageConverter(image_size=(48, 48), scale=SCALE, offset=OFFSET).save_to_preset(folder)
    return str(folder), network


def dinov2(models):
    """A class token, 2 registers and 16 patches."""
    return models.DINOV2Backbone(
        image_shape=(32, 32, 3),
        position_embedding_shape=(32, 32),
        patch_size=8,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        num_register_tokens=2,
    )


def dinov3(models):
    """A class token, 2 registers and 16 patches, whose positions are rotations."""
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "num_register_tokens": 2}
    return models.DINOV3Backbone(image_shape=(32, 32, 3), patch_size=8, **sizes)


def siglip(models):
    """Encoders of images and of text."""
    encoder = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    images = models.SigLIPVisionEncoder(image_shape=(32, 32, 3), patch_size=8, **encoder)
    text = models.SigLIPTextEncoder(vocabulary_size=10, embedding_dim=8, max_sequence_length=4, **encoder)
    return models.SigLIPBackbone(vision_encoder=images, text_encoder=text)


def saved(network, folder):
    """The folder as a preset of the network."""
    import keras_hub

    network.save_to_preset(folder)
    keras_hub.layers.ViTImageConverter(scale=SCALE, offset=OFFSET).save_to_preset(folder)
    return str(folder)


def outputs(network):
    """The outputs of a network whose only input may stand in a dict."""
    return np.asarray(network(keras.tree.map_structure(lambda _: IMAGES.astype("float32"), network.input)))


@pytest.mark.parametrize("pooling", ["avg", "max", "token"])
def test_tokens_are_pooled(models, pooling):
    network = vit(models)
    model = from_backbone(network, dim=None, normalize=False, pooling=pooling, scale=keras.layers.Rescaling(1 / 255))
    tokens = network.predict(IMAGES / 255, verbose=0)
    expected = {"avg": tokens.mean(axis=1), "max": tokens.max(axis=1), "token": tokens[:, 0]}[pooling]
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("build", "first_patch"), [(vit, 1), (dinov2, 3), (dinov3, 3)])
def test_the_class_token_stands_beside_the_mean_of_the_patches(models, build, first_patch):
    network = build(models)
    model = from_backbone(network, dim=None, normalize=False, pooling="token+avg")
    tokens = outputs(network)
    expected = np.concatenate([tokens[:, 0], tokens[:, first_patch:].mean(axis=1)], axis=1)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, rtol=1e-4, atol=1e-5)


def test_of_images_and_text_a_preset_brings_the_encoder_of_images(models, tmp_path):
    network = siglip(models)
    model = from_backbone(saved(network, tmp_path / "siglip"), dim=None, normalize=False)
    scaled = (IMAGES * np.array(SCALE) + np.array(OFFSET)).astype("float32")
    expected = network.vision_encoder.predict({"images": scaled}, verbose=0)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, rtol=1e-4, atol=1e-5)
    large = from_backbone(str(tmp_path / "siglip"), input_shape=(64, 64, 3))
    assert large.predict(np.tile(IMAGES, (1, 2, 2, 1)), verbose=0).shape == (8, 128)


@pytest.mark.parametrize(("build", "width"), [(vit, 48), (dinov2, 64), (dinov3, 48)])
def test_a_preset_takes_images_of_another_size(models, build, width, tmp_path):
    network = build(models)
    folder = saved(network, tmp_path / "preset")
    same, large = (from_backbone(folder, input_shape=shape, dim=8) for shape in ((32, 32, 3), (64, width, 3)))
    np.testing.assert_array_equal(outputs(same.get_layer("backbone")), outputs(network))
    images = np.tile(IMAGES, (1, 2, 2, 1))[:, :, :width]
    embeddings = large.predict(images, verbose=0)
    assert np.isfinite(embeddings).all()
    large.save(tmp_path / "large.keras")
    loaded = keras.models.load_model(tmp_path / "large.keras")
    np.testing.assert_array_equal(loaded.predict(images, verbose=0), embeddings)


def test_position_embeddings_are_resized_as_a_map_beside_the_class_token(models):
    network = vit(models)
    positions = next(weight for weight in network.weights if "position_embedding" in weight.path)
    rows, columns = np.mgrid[:4, :4].reshape(2, 16)
    ramps = np.stack([rows, columns, *[np.full(16, 7.0)] * 6], axis=1)
    positions.assign(np.concatenate([np.full((1, 8), -3.0), ramps]))
    resized = with_image_shape(network, (64, 32, 3))
    values = np.asarray(next(weight for weight in resized.weights if "position_embedding" in weight.path))
    assert values.shape == (1 + 8 * 4, 8)
    np.testing.assert_array_equal(values[0], -3.0)  # the class token
    maps = values[1:].reshape(8, 4, 8)
    np.testing.assert_allclose(maps[2:6, 0, 0], [0.75, 1.25, 1.75, 2.25], atol=0.05)  # twice as many rows
    np.testing.assert_allclose(maps[..., 1], np.tile(np.arange(4.0), (8, 1)), atol=1e-5)
    np.testing.assert_allclose(maps[..., 2:], 7.0, rtol=1e-5)
    for variable, source in zip(resized.weights, network.weights, strict=True):
        if variable.shape == source.shape:
            np.testing.assert_array_equal(variable, source)


def test_a_backbone_for_images_of_any_size_takes_the_given_size(models):
    model = from_backbone(resnet(models), dim=None, normalize=False, input_shape=(32, 64, 3))
    assert model.input_shape == (None, 32, 64, 3)
    assert model.output_shape == (None, 64)


def test_a_preset_brings_its_scale_but_not_its_size(preset):
    folder, network = preset
    model = from_backbone(folder, dim=None, normalize=False)
    tokens = network.predict(IMAGES * np.array(SCALE) + np.array(OFFSET), verbose=0)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), tokens.mean(axis=1), rtol=1e-4, atol=1e-5)
    bare = from_backbone(folder, dim=None, normalize=False, scale=lambda images: images)
    tokens = network.predict(IMAGES.astype("float32"), verbose=0)
    np.testing.assert_allclose(bare.predict(IMAGES, verbose=0), tokens.mean(axis=1), rtol=1e-4, atol=1e-4)


def test_a_preset_may_have_other_weights(preset, models, tmp_path):
    folder, network = preset
    other = vit(models)
    other.save_weights(tmp_path / "other.weights.h5")
    for weights, expected in {"imagenet": network, str(tmp_path / "other.weights.h5"): other}.items():
        found = from_backbone(folder, weights=weights).get_layer("backbone")
        np.testing.assert_array_equal(found.predict(IMAGES / 255, verbose=0), expected.predict(IMAGES / 255, verbose=0))
    at_random = from_backbone(folder, weights=None).get_layer("backbone").predict(IMAGES / 255, verbose=0)
    assert np.abs(at_random - network.predict(IMAGES / 255, verbose=0)).max() > 0.1


def test_it_trains_and_stays_frozen_in_its_file(models, tmp_path):
    model = from_backbone(resnet(models), dim=4, freeze_batch_norm=True, input_shape=(32, 32, 3))
    model.compile("adam", loss=tfdml.losses.MultiSimilarityLoss(), learning_rate_multipliers={"backbone": 0.1})
    model.fit(IMAGES, LABELS, batch_size=8, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert [v.path for v in again.trainable_variables] == [v.path for v in model.trainable_variables]
    np.testing.assert_array_equal(again.predict(IMAGES, verbose=0), model.predict(IMAGES, verbose=0))


def test_lora_adapts_each_matrix_of_a_transformer_and_stays_in_its_file_and_export(models, tmp_path):
    model = from_backbone(vit(models), dim=4, pooling="token", scale=keras.layers.Rescaling(1 / 255))
    # query, key, value and output of attention with 2 heads of 4, and both layers of the perceptron, of rank 2
    assert tfdml.networks.add_lora(model, 2) == 3 * (8 * 2 * 2 + 2 * 4) + (2 * 4 * 2 + 2 * 8) + 2 * 2 * (8 + 16)
    frozen = {variable.path: variable.numpy() for variable in model.non_trainable_variables}
    model.compile(keras.optimizers.Adam(0.1), loss=tfdml.losses.MultiSimilarityLoss())
    before = model.predict(IMAGES, verbose=0)
    model.fit(IMAGES, LABELS, batch_size=8, epochs=2, verbose=0)
    embeddings = model.predict(IMAGES, verbose=0)
    assert np.abs(embeddings - before).max() > 0.01
    for variable in model.non_trainable_variables:
        if "seed" not in variable.path:
            np.testing.assert_array_equal(variable.numpy(), frozen[variable.path], err_msg=variable.path)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert [v.path for v in again.trainable_variables] == [v.path for v in model.trainable_variables]
    np.testing.assert_array_equal(again.predict(IMAGES, verbose=0), embeddings)
    tfdml.export.saved_model(again, tmp_path / "export")
    served = tf.saved_model.load(str(tmp_path / "export")).signatures["serving_default"]
    np.testing.assert_allclose(served(images=tf.constant(IMAGES))["embedding"], embeddings, atol=1e-5)


def test_layerwise_decay_has_a_step_per_transformer_block(models):
    multipliers = tfdml.models.layerwise_decay(from_backbone(vit(models), dim=4), 0.5)
    steps = {"embedding": 1.0, "transformer_block_1": 0.5, "ln": 0.5, "vit_patching_and_embedding": 0.25}
    assert multipliers == steps


def test_an_unknown_name_is_refused_with_all_that_is_known(models):
    with pytest.raises(ValueError, match=r"'ResNet5', expected the name of a network of keras.applications, .*preset"):
        from_backbone("ResNet5")


def test_without_kerashub_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(ImportError, match=r"Received backbone='resnet_50_imagenet', .*pip install tfdml\[hub\]"):
        from_backbone("resnet_50_imagenet")


def test_a_preset_that_cannot_be_downloaded_says_what_to_do(models, monkeypatch):
    def offline(*arguments, **options):
        raise ConnectionError("no network")

    monkeypatch.setattr(models.Backbone, "from_preset", offline)
    with pytest.raises(OSError, match=r"'resnet_50_imagenet' could not be loaded \(no network\)\. .*path of their"):
        from_backbone("resnet_50_imagenet")


def test_a_preset_without_a_scale_is_refused(models, tmp_path):
    vit(models).save_to_preset(tmp_path / "preset")
    with pytest.raises(OSError, match=r"image_converter.json.* pass keras_hub.models.Backbone.from_preset\(...\) and"):
        from_backbone(str(tmp_path / "preset"))
