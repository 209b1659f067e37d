"""Networks of several learners in one embedding."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses import loops
from tfdml import losses, models

IMAGES = np.random.default_rng(0).uniform(0, 1, (12, 8, 8, 3)).astype("float32")
LABELS = np.repeat(np.arange(4), 3)


def maps():
    """Images, and feature maps of growing depth, whose weights are the same in each test."""
    keras.utils.set_random_seed(0)
    images = keras.Input((8, 8, 3))
    stages = [images]
    for width in (4, 6, 8):
        stages.append(keras.layers.Conv2D(width, 3, strides=2, padding="same", activation="relu")(stages[-1]))
    return images, stages[1:]


def cascade():
    images, stages = maps()
    loss = losses.CascadeLoss(losses.ContrastiveLoss(), dims=(2, 3, 4))
    return models.EmbeddingModel(images, models.ensemble(stages, dims=(2, 3, 4))), loss


def boosted():
    images, stages = maps()
    loss = losses.BoostedLoss(dims=(2, 3, 4))
    return models.EmbeddingModel(images, models.ensemble(stages[-1], dims=loss.dims, shares=loss.shares)), loss


def attention():
    images, stages = maps()
    trunk = keras.Sequential([keras.layers.Conv2D(5, 3, activation="relu"), keras.layers.GlobalAveragePooling2D()])
    branches = models.attention_branches(stages[0], trunk, learners=3)
    loss = losses.DivergenceLoss(losses.ContrastiveLoss(), dims=(3,) * 3)
    return models.EmbeddingModel(images, models.ensemble(branches, dims=(3,) * 3)), loss


@pytest.mark.slow
@pytest.mark.parametrize("build", [cascade, boosted, attention])
def test_an_ensemble_trains_with_its_loss_and_is_saved_and_exported_as_one_embedding(build, tmp_path):
    keras.utils.set_random_seed(0)
    model, loss = build()
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    history = model.fit(IMAGES, LABELS, batch_size=12, epochs=8, verbose=0, shuffle=False).history["loss"]
    assert history[-1] < history[0]
    embeddings = model.predict(IMAGES, verbose=0)
    assert embeddings.shape == (12, 9)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(IMAGES, verbose=0), embeddings)
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(served.serve(IMAGES), embeddings, atol=1e-6)


def test_the_similarity_of_an_ensemble_is_the_weighted_mean_of_its_learners():
    model, loss = boosted()
    x = model.predict(IMAGES, verbose=0).astype(float)
    expected = sum(share * loops.cosines(part) for share, part in zip(loss.shares, np.split(x, (2, 5), 1), strict=True))
    np.testing.assert_allclose(x @ x.T, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-6)


def test_attention_branches_share_the_trunk_and_have_masks_of_their_own():
    model, _ = attention()
    names = [type(layer).__name__ for layer in model.layers]
    assert names.count("Sequential") == 1
    assert names.count("Multiply") == 3
    assert names.count("Conv2D") == 1 + 2 * 3
    parts = np.split(model.predict(IMAGES, verbose=0), 3, axis=1)
    assert np.abs(parts[0] - parts[1]).max() > 0.01


def test_tokens_and_vectors_are_features_too():
    for shape in ((5,), (7, 5)):
        x = keras.Input(shape)
        assert models.ensemble(x, dims=(2, 3)).shape == (None, 5)
        assert models.ensemble([x], dims=(4,)).shape == (None, 4)


def test_wrong_arguments_are_named():
    images, stages = maps()
    with pytest.raises(ValueError, match=r"features of 3 learners with dims=\(2, 3\), expected features for each"):
        models.ensemble(stages, dims=(2, 3))
    with pytest.raises(ValueError, match="dims=0"):
        models.ensemble(images, dims=(0,))
    with pytest.raises(ValueError, match=r"shares=\(1.0,\) with dims"):
        models.ensemble(images, dims=(2, 3), shares=(1.0,))
    with pytest.raises(ValueError, match=r"shares=\(1.0, 0.0\), expected numbers above 0"):
        models.ensemble(images, dims=(2, 3), shares=(1.0, 0.0))
    with pytest.raises(ValueError, match="expected vectors, tokens or feature maps"):
        models.ensemble(keras.Input((2, 2, 2, 2)), dims=(2,))
    with pytest.raises(ValueError, match="expected a Keras layer or model: its weights are shared"):
        models.attention_branches(images, lambda x: x, learners=2)
    with pytest.raises(ValueError, match=r"features of shape \(None, 5\)"):
        models.attention_branches(keras.Input((5,)), keras.layers.Dense(2), learners=2)
