"""LoRA: its equation, what is trained, files, resumed runs, precisions."""

import warnings

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tests.worlds import linear
from tfdml import callbacks, losses, models
from tfdml.networks import add_lora, freeze, merge_lora, unfreeze

pytestmark = pytest.mark.backends

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (8, 6, 6, 3)).astype("uint8")
LABELS = np.arange(8) // 2
RANK, ALPHA = 2, 6


def network(dtype="float32"):
    """A convolution of 3 x 3, a depthwise and a pointwise one with normalization, and a dense layer over channels."""
    images = keras.Input((6, 6, 3), dtype="uint8")
    x = keras.layers.Rescaling(1 / 255, dtype=dtype)(images)
    x = keras.layers.Conv2D(4, 3, name="spatial", dtype=dtype)(x)
    x = keras.layers.DepthwiseConv2D(3, name="depthwise", dtype=dtype)(x)
    x = keras.layers.Conv2D(6, 1, name="pointwise", dtype=dtype)(x)
    x = keras.layers.BatchNormalization(name="normalization", dtype=dtype)(x)
    x = keras.layers.Dense(5, activation="relu", name="dense", dtype=dtype)(x)
    return keras.Model(images, x)


def made(dtype="float32", **options):
    keras.utils.set_random_seed(1)
    model = models.from_backbone(network(dtype), dim=4)
    trained = add_lora(model, RANK, alpha=ALPHA)
    model.compile("adam", loss=losses.MultiSimilarityLoss(), **options)
    return model, trained


def fit(model, epochs=1, **options):
    model.fit(IMAGES, LABELS, batch_size=8, epochs=epochs, shuffle=False, verbose=0, **options)
    return model


def predicted(model):
    return model.predict(IMAGES, verbose=0)


def values(model):
    return [numbers(variable) for variable in model.variables + model.optimizer.variables]


def assert_same(first, second):
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture(scope="module")
def trained():
    return fit(made()[0], 3)


CASES = {
    "dense": (lambda: keras.layers.Dense(5), (4, 6), "nc,co->no"),
    "pointwise": (lambda: keras.layers.Conv2D(5, 1), (4, 3, 3, 6), "nhwc,co->nhwo"),
    "strided": (lambda: keras.layers.Conv2D(5, 1, strides=2), (4, 4, 4, 6), "nhwc,co->nhwo"),
    "attention": (
        lambda: keras.layers.EinsumDense("ntc,chd->nthd", (None, 2, 4), bias_axes="hd"),
        (4, 3, 6),
        "ntc,chd->nthd",
    ),
}


@pytest.mark.parametrize(("make", "shape", "equation"), CASES.values(), ids=CASES)
def test_an_adapted_layer_adds_the_scaled_product_of_its_factors(make, shape, equation):
    x = rng.standard_normal(shape).astype("float32")
    inputs = keras.Input(shape[1:])
    model = keras.Model(inputs, make()(inputs))
    before = numbers(model(x))
    add_lora(model, RANK, alpha=ALPHA)
    layer = model.layers[-1]
    np.testing.assert_array_equal(numbers(model(x)), before)
    layer.lora_kernel_b.assign(rng.standard_normal(layer.lora_kernel_b.shape))
    layer.bias.assign(rng.standard_normal(layer.bias.shape))
    w, a, b, bias = (
        numbers(each).astype("float64")
        for each in (layer._kernel, layer.lora_kernel_a, layer.lora_kernel_b, layer.bias)
    )
    rows = x[:, ::2, ::2] if layer.get_config().get("strides") == (2, 2) else x
    matrix = w + ALPHA / RANK * np.einsum("...r,ro->...o", a, b)
    matrix = matrix[0, 0] if matrix.ndim == 4 else matrix
    np.testing.assert_allclose(numbers(model(x)), np.einsum(equation, rows, matrix) + bias, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(numbers(merge_lora(model)(x)), numbers(model(x)), rtol=1e-5, atol=1e-5)


def test_only_factors_and_the_head_are_trained():
    model, number = made()
    assert sorted(variable.path for variable in model.trainable_variables) == sorted(
        [f"{name}/lora_kernel_{factor}" for name in ("pointwise", "dense") for factor in "ab"]
        + ["embedding/kernel", "embedding/bias"]
    )
    assert number == RANK * (4 + 6) + RANK * (6 + 5)
    before = {id(variable): numbers(variable) for variable in model.variables}
    fit(model, 3)
    trained = {id(variable) for variable in model.trainable_variables}
    for variable in model.weights:
        moved = np.abs(numbers(variable) - before[id(variable)]).max() > 0
        assert moved == (id(variable) in trained), variable.path


def test_freezing_and_releasing_a_backbone_keeps_its_kernels_frozen():
    model, _ = made()
    kernel = model.get_layer("backbone").get_layer("dense")
    kernel.trainable = False
    kernel.trainable = True
    assert [variable.name for variable in kernel.trainable_variables] == ["lora_kernel_a", "lora_kernel_b"]


def test_a_model_that_is_not_of_from_backbone_is_adapted_whole_but_not_the_layers_of_its_loss():
    model = linear(losses.ProxyAnchorLoss(classes=4))
    add_lora(model, 1)
    model.compile("adam", loss=losses.ProxyAnchorLoss(classes=4))
    names = {variable.name for variable in model.trainable_variables}
    assert len(model.trainable_variables) == 3
    assert {"lora_kernel_a", "lora_kernel_b"} < names


def test_a_plain_functional_model_keeps_lora_in_its_file(tmp_path):
    model = network()
    add_lora(model, RANK, alpha=ALPHA)
    model.get_layer("dense").lora_kernel_b.assign(np.ones((RANK, 5)))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(predicted(again), predicted(model))
    assert [v.path for v in again.trainable_variables] == [v.path for v in model.trainable_variables]
    assert np.abs(numbers(again.get_layer("dense").lora_kernel_a)).max() > 0


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_bits_of_an_uninterrupted_one(trained, tmp_path):
    path = tmp_path / "state.keras"
    fit(made()[0], 1, callbacks=[callbacks.TrainingCheckpoint(path)])
    resumed = keras.saving.load_model(path)
    assert resumed.steps == 1
    assert_same(values(fit(resumed, 3, initial_epoch=1)), values(trained))


def test_a_merged_model_has_layers_of_keras_alone_and_leaves_the_model_as_it_is(trained):
    before = values(trained)
    merged = merge_lora(trained)
    np.testing.assert_allclose(predicted(merged), predicted(trained), atol=1e-6)
    kinds = {type(layer).__name__ for layer in merged._flatten_layers()}
    assert not [kind for kind in kinds if kind.startswith("LoRA")]
    unfreeze(merged)
    plain = models.from_backbone(network(), dim=4)
    assert [v.path for v in merged.trainable_variables] == [v.path for v in plain.trainable_variables]
    assert merged.count_params() == plain.count_params()
    assert_same(values(trained), before)
    assert merge_lora(merged) is merged


@pytest.mark.slow
def test_the_head_may_be_trained_before_the_backbone():
    model = models.from_backbone(network(), dim=4)
    freeze(model)
    model.compile("adam", loss=losses.MultiSimilarityLoss())
    before = predicted(fit(model))
    add_lora(model, RANK)
    np.testing.assert_allclose(predicted(model), before, atol=1e-6)
    model.compile(keras.optimizers.SGD(1.0), loss=losses.MultiSimilarityLoss())
    fit(model, 2)
    assert len(model.trainable_variables) == 6
    np.testing.assert_allclose(predicted(model), numbers(model(IMAGES, training=False)), atol=1e-5)
    assert np.abs(predicted(model) - before).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_trains_and_is_saved(dtype, tmp_path):
    model = fit(made(dtype)[0], 2)
    factors = [v for v in model.trainable_variables if "lora" in v.name]
    assert {keras.backend.standardize_dtype(v.dtype) for v in factors} == {"float32"}
    assert all(np.abs(numbers(factor)).max() > 0 for factor in factors)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(predicted(keras.saving.load_model(tmp_path / "model.keras")), predicted(model))
    np.testing.assert_allclose(predicted(merge_lora(model)), predicted(model), atol=2e-2)


@pytest.mark.slow
def test_micro_batches_train_the_factors_as_whole_batches_do():
    whole, parts = (fit(made(**options)[0]) for options in ({}, {"micro_batch_size": 4}))
    for ours, theirs in zip(parts.trainable_variables, whole.trainable_variables, strict=True):
        np.testing.assert_allclose(numbers(ours), numbers(theirs), atol=1e-4)


def test_wrong_calls_say_what_to_do():
    with pytest.raises(ValueError, match="rank=0, expected a whole number of at least 1"):
        add_lora(network(), 0)
    with pytest.raises(ValueError, match="alpha=0, expected a number above 0"):
        add_lora(network(), alpha=0)
    inputs = keras.Input((6, 6, 3))
    with pytest.raises(ValueError, match="model 'spatial', expected Dense, EinsumDense or Conv2D layers of 1 x 1"):
        add_lora(keras.Model(inputs, keras.layers.Conv2D(3, 3)(inputs), name="spatial"))
    with pytest.raises(ValueError, match=r"a model with LoRA, expected one without. Merge it with merge_lora"):
        add_lora(made()[0])


def test_weights_without_lora_are_refused(tmp_path):
    plain = network()
    plain.save_weights(tmp_path / "plain.weights.h5")
    adapted = network()
    add_lora(adapted)
    warnings.simplefilter("ignore")  # Keras warns before it raises
    with pytest.raises(ValueError, match=r"Load weights without LoRA before add_lora"):
        adapted.load_weights(tmp_path / "plain.weights.h5")
