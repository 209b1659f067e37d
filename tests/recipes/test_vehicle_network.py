"""The two-branch network of vehicles: shapes and numbers of the paper, what reaches which output, its training."""

import keras
import numpy as np
import pytest

from recipes.reidentification import vehicle_network, vgg_m
from tfdml import losses, models


def pooled(images):
    return keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3, strides=4)(images))


def small(dim=6, num_models=3):
    images = keras.Input((16, 16, 3))
    outputs = vehicle_network(images, num_models=num_models, dim=dim, trunk=pooled)
    return images, outputs, models.EmbeddingModel(images, outputs)


def photos(n=12, seed=0):
    return np.random.default_rng(seed).uniform(0, 255, (n, 16, 16, 3)).astype("float32")


@pytest.mark.slow
def test_the_trunk_of_the_paper_has_its_layer_shapes_and_numbers():
    images = keras.Input((224, 224, 3))
    trunk = keras.Model(images, vgg_m(images))
    convolutions = [layer for layer in trunk.layers if isinstance(layer, keras.layers.Conv2D)]
    shapes = [tuple(layer.output.shape[1:]) for layer in convolutions]
    assert shapes == [(109, 109, 96), (26, 26, 256), *3 * [(13, 13, 512)]]
    kernels = 7 * 7 * 3 * 96 + 5 * 5 * 96 * 256 + 9 * 512 * (256 + 512 + 512) + 6 * 6 * 512 * 4096
    biases, norms = 96 + 256 + 3 * 512 + 4096, 4 * (96 + 256)
    assert trunk.count_params() == kernels + biases + norms
    assert trunk.output_shape == (None, 4096)


def test_each_branch_reaches_the_embedding_and_only_the_first_the_scores_of_models():
    _, _, network = small()
    before = network.predict(photos(), verbose=0)
    for name, changed in (("vehicle_features", {"embedding"}), ("model_features", {"embedding", "model"})):
        layer = network.get_layer(name)
        layer.bias.assign(layer.bias + 3.0)
        after = network.predict(photos(), verbose=0)
        assert {key for key in after if not np.allclose(after[key], before[key], atol=1e-3)} == changed
        before = after


@pytest.mark.slow
def test_one_sum_of_losses_trains_both_outputs_and_unknown_models_are_ignored():
    keras.utils.set_random_seed(0)
    images, outputs, network = small()
    vehicles = np.repeat(np.arange(6), 2)
    vehicle_models = np.array([0, 0, 1, 1, 2, -1])[vehicles]
    targets = {"model": vehicle_models, "embedding": vehicles}
    by_model = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    network.compile(
        keras.optimizers.Adam(0.01), loss={"model": by_model, "embedding": losses.CoupledClustersLoss(margin=0.5)}
    )
    first = network.evaluate(photos(), targets, batch_size=12, verbose=0, return_dict=True)
    found = network.predict(photos(), verbose=0)
    is_known = vehicle_models >= 0
    logits = found["model"].astype(float)
    by_hand = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(12), vehicle_models]
    by_vehicle = float(losses.CoupledClustersLoss(margin=0.5)(vehicles, found["embedding"]))
    assert first["loss"] == pytest.approx(by_hand[is_known].mean() + by_vehicle, rel=1e-4)
    network.fit(photos(), targets, batch_size=12, epochs=30, verbose=0)
    last = network.evaluate(photos(), targets, batch_size=12, verbose=0, return_dict=True)
    assert last["loss"] < 0.8 * first["loss"]
    embedder = models.EmbeddingModel(images, outputs["embedding"])
    np.testing.assert_allclose(
        embedder.predict(photos(), verbose=0), network.predict(photos(), verbose=0)["embedding"], atol=1e-6
    )
