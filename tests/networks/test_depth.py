"""Depth: the steps of known networks, and freezing up to a step."""

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tfdml import losses, models, networks
from tfdml.networks.depth import steps_by_depth

pytestmark = pytest.mark.backends


def chain():
    """Two blocks of a dense layer with normalization between two dense layers."""
    inputs = keras.Input((4,))
    x = keras.layers.Dense(4, name="stem")(inputs)
    x = keras.layers.LayerNormalization(name="stem_norm")(x)
    for block in ("block1a", "block1b"):
        y = keras.layers.Dense(4, name=f"{block}_dense")(x)
        x = keras.layers.Add(name=f"{block}_add")([x, keras.layers.BatchNormalization(name=f"{block}_bn")(y)])
    return keras.Model(inputs, keras.layers.Dense(4, name="top")(x))


def model_of(backbone):
    return models.from_backbone(backbone, dim=3, input_shape=(4,))


def frozen(model):
    layers = model.get_layer("backbone").layers
    return [layer.name for layer in layers if layer.weights and not layer.trainable]


def test_blocks_are_steps_and_a_normalization_belongs_to_the_layer_before_it():
    names = {name: [layer.name for layer in step] for name, step in steps_by_depth(model_of(chain())).items()}
    assert names == {
        "stem": ["stem", "stem_norm"],
        "block1a": ["block1a_dense", "block1a_bn"],
        "block1b": ["block1b_dense", "block1b_bn"],
        "top": ["top"],
        "embedding": ["embedding"],
    }


# Blocks of the papers, and other layers with weights, most often a stem and a top.
STEPS = {
    "ResNet50": (lambda: keras.applications.ResNet50(weights=None, include_top=False), 16, 1),
    "MobileNetV2": (lambda: keras.applications.MobileNetV2(weights=None, include_top=False), 16, 4),
    "EfficientNetLite0": (lambda: models.efficientnet_lite(weights=None), 16, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize(("build", "blocks", "others"), STEPS.values(), ids=STEPS)
def test_known_networks_have_a_step_per_block(build, blocks, others):
    steps = steps_by_depth(build())
    assert sum("block" in name for name in steps) == blocks
    assert len(steps) == blocks + others


@pytest.mark.parametrize(
    ("until", "number"),
    [(0, 0), (0.5, 4), (1.0, 7), ("stem", 2), ("block1a", 4), ("block1a_dense", 4), ("block1b_bn", 6), ("top", 7)],
)
def test_layers_up_to_a_step_are_frozen(until, number):
    model = model_of(chain())
    networks.freeze(model, until)
    every = ["stem", "stem_norm", "block1a_dense", "block1a_bn", "block1b_dense", "block1b_bn", "top"]
    assert frozen(model) == every[:number]
    assert model.get_layer("embedding").trainable


def test_frozen_layers_stay_as_they_are_in_training_and_in_a_file(tmp_path):
    model = model_of(chain())
    networks.freeze(model, until="block1a")
    model.compile("sgd", loss=losses.MultiSimilarityLoss())
    before = {variable.path: numbers(variable) for variable in model.weights}
    x = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
    model.fit(x, np.arange(8) // 2, verbose=0)
    moved = {path.split("/")[0] for v in model.weights if np.abs(numbers(v) - before[path := v.path]).max() > 0}
    assert moved == {"block1b_dense", "block1b_bn", "top", "embedding"}
    model.save(tmp_path / "model.keras")
    assert frozen(keras.saving.load_model(tmp_path / "model.keras")) == frozen(model)


def test_unfreezing_trains_everything_again_also_after_a_file(tmp_path):
    model = model_of(chain())
    every = [variable.path for variable in model.trainable_variables]
    networks.freeze(model)
    assert len(model.trainable_variables) == 2
    model.save(tmp_path / "model.keras")
    for each in (model, keras.saving.load_model(tmp_path / "model.keras")):
        networks.unfreeze(each)
        assert [variable.path for variable in each.trainable_variables] == every


def test_wrong_calls_say_what_to_do():
    with pytest.raises(ValueError, match=r"until=1.5, expected a fraction in \[0, 1\] or the name of a layer"):
        networks.freeze(chain(), 1.5)
    with pytest.raises(ValueError, match="until='block9', expected a name among stem, block1a, block1b, top"):
        networks.freeze(chain(), "block9")
