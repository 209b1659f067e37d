"""Learning rates of their own for some layers: every backend, optimizer, file and precision."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, numbers
from tfdml import layers, losses, models

pytestmark = pytest.mark.backends

rng = np.random.default_rng(0)
X, LABELS = rng.standard_normal((8, 5)).astype("float32"), np.arange(8) // 2


def made(optimizer, multipliers=None, loss=None, jit_compile=False, dtype="float32", run_eagerly=False):
    """A model of two nested layers and a last one, with the same weights each time, after one step."""
    keras.utils.set_random_seed(1)
    inner_inputs = keras.Input((5,))
    hidden = keras.layers.Dense(4, name="hidden", dtype=dtype)(inner_inputs)
    nested = keras.Model(inner_inputs, keras.layers.Dense(4, name="second", dtype=dtype)(hidden), name="backbone")
    inputs = keras.Input((5,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(3, name="last", dtype=dtype)(nested(inputs)))
    options = {} if multipliers is None else {"learning_rate_multipliers": multipliers}
    options |= {"jit_compile": jit_compile, "run_eagerly": run_eagerly}
    model.compile(optimizer, loss=loss or losses.MultiSimilarityLoss(), **options)
    return model


def steps_of(model):
    """How far one training step moves each variable."""
    before = {variable.path: numbers(variable) for variable in model.trainable_variables}
    model.train_on_batch(X, LABELS)
    return {variable.path: numbers(variable) - before[variable.path] for variable in model.trainable_variables}


@pytest.mark.parametrize("name", ["SGD", "AdamW", pytest.param("scaled", marks=pytest.mark.slow)])
def test_weight_decay_leaves_out_the_numbers_that_a_loss_learns_and_what_a_user_excludes(name):
    def steps(weight_decay):
        kind = keras.optimizers.AdamW if name == "AdamW" else keras.optimizers.SGD
        optimizer = kind(0.1, weight_decay=weight_decay)
        optimizer.exclude_from_weight_decay(var_names=["bias"])
        boundary = layers.Boundaries(class_ids=LABELS)
        loss = losses.WeightedSumLoss([losses.MarginLoss(boundary=boundary), losses.ProxyNCALoss(classes=4)])
        wrapped = keras.optimizers.LossScaleOptimizer(optimizer) if name == "scaled" else optimizer
        model = made(wrapped, loss=loss, run_eagerly=BACKEND == "tensorflow")
        model.loss_layers[1].vectors.assign(np.ones((4, 3)))
        return steps_of(model)

    def name_of(path):
        return path.split("/")[-1]

    plain, decayed = steps(0.0), steps(0.5)
    pairs = zip(plain.items(), decayed.values(), strict=True)
    changed = {name_of(path) for (path, step), other in pairs if np.abs(other - step).max() > 1e-3}
    assert changed == {"kernel", "vectors"}
    assert {*map(name_of, plain)} == {*changed, "bias", "base", "of_classes"}


OPTIMIZERS = ["Adadelta", "Adafactor", "Adagrad", "AdamW", "Adamax", "Ftrl", "Lamb", "Lion", "Muon", "Nadam", "RMSprop"]
SETTINGS = [(name, False) for name in ("SGD", "Adam", *OPTIMIZERS)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "jit_compile"), SETTINGS + [("SGD", True), ("Adam", True)] * XLA)
def test_a_layer_moves_as_with_an_optimizer_of_its_learning_rate(name, jit_compile):
    def make(rate):
        decay = {"weight_decay": 0.0} if name in ("AdamW", "Muon") else {}
        return getattr(keras.optimizers, name)(rate, **decay)

    eager = {"run_eagerly": BACKEND == "tensorflow"}  # saves two of three traces
    whole, half = (steps_of(made(make(rate), **eager)) for rate in (0.1, 0.05))
    multipliers = {"backbone": 0.5, "second": 0.0}
    for path, step in steps_of(made(make(0.1), multipliers, jit_compile=jit_compile)).items():
        expected = 0.0 * step if "second" in path else half[path] if "hidden" in path else whole[path]
        np.testing.assert_allclose(step, expected, rtol=1e-3, atol=1e-7, err_msg=path)
    assert all(step.any() for step in whole.values())


@pytest.mark.slow
def test_layers_of_the_loss_have_names_too():
    boundaries = layers.Boundaries(class_ids=LABELS, name="boundaries")
    model = made(keras.optimizers.SGD(0.1), {"boundaries": 10.0}, losses.MarginLoss(boundary=boundaries))
    plain = made(keras.optimizers.SGD(0.1), None, losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS)))
    moved, expected = ([np.abs(step).max() for step in steps_of(one).values()] for one in (model, plain))
    np.testing.assert_allclose(moved[:6], expected[:6], rtol=1e-4)
    np.testing.assert_allclose(moved[6:], 10 * np.array(expected[6:]), rtol=1e-4)
    assert expected[6] > 0


@pytest.mark.slow
def test_a_file_keeps_them(tmp_path):
    model = made(keras.optimizers.Adam(0.1), {"backbone": 0.25})
    model.train_on_batch(X, LABELS)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for ours, expected in zip(steps_of(again).values(), steps_of(model).values(), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-7)


def test_loss_scaling_of_mixed_precision_keeps_them():
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    scaled = steps_of(made(optimizer, {"backbone": 0.0}))
    assert all(np.abs(step).max() == 0 for path, step in scaled.items() if "backbone" in path or "hidden" in path)
    assert any(np.abs(step).max() > 0 for step in scaled.values())


def test_compiling_again_without_them_forgets_them():
    model = made(keras.optimizers.SGD(0.1), {"backbone": 0.0})
    model.compile(keras.optimizers.SGD(0.1), loss=losses.MultiSimilarityLoss())
    assert all(np.abs(step).max() > 0 for step in steps_of(model).values())


def test_unknown_layers_and_negative_multipliers_are_refused():
    with pytest.raises(ValueError, match="multipliers for 'bakbone', expected names of layers among backbone, hidden,"):
        made("sgd", {"bakbone": 0.1})
    with pytest.raises(ValueError, match="multipliers with backbone=-1, expected 0 or more"):
        made("sgd", {"backbone": -1})


def test_layerwise_decay_is_a_power_per_step_below_the_last_layer():
    inputs = keras.Input((5,))
    x = keras.layers.Dense(4, name="stem")(inputs)
    x = keras.layers.Dense(4, name="block1_dense")(x)
    x = keras.layers.LayerNormalization(name="block1_norm")(x)
    model = models.from_backbone(keras.Model(inputs, keras.layers.Dense(4, name="block2_dense")(x)), input_shape=(5,))
    expected = {"embedding": 1.0, "block2_dense": 0.5, "block1_dense": 0.25, "block1_norm": 0.25, "stem": 0.125}
    assert models.layerwise_decay(model, 0.5) == expected


@pytest.mark.parametrize("decay", [0.0, 1.5])
def test_a_decay_outside_its_range_is_refused(decay):
    with pytest.raises(ValueError, match=f"Received decay={decay}, expected a number above 0 and at most 1"):
        models.layerwise_decay(made("sgd"), decay)
