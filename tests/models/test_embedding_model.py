"""A model that adopts the layers of its loss."""

import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.backend import BACKEND, numbers
from tests.worlds import linear
from tfdml import layers, losses, miners, models, samplers

pytestmark = pytest.mark.backends

# JAX runs the same function with and without compilation, and compiles each operation by itself without.
EAGER = [{"run_eagerly": True}] if BACKEND == "tensorflow" else []
# For tests of files: the fastest way to a few steps.
QUICK = {"run_eagerly": BACKEND == "tensorflow"}


@keras.saving.register_keras_serializable("tests")
class Scale(keras.layers.Layer):
    """A miner that learns: one factor on all weights."""

    def __init__(self, **options):
        super().__init__(**options)
        self.factor = self.add_weight(shape=(), initializer="ones", name="factor")

    def call(self, pairs):
        return pairs.scale(positive=self.factor, negative=self.factor)


def make(loss=None, **options):
    loss = loss or losses.ContrastiveLoss(negative_margin=4.0, miner=Scale(name="scale"))
    return linear(loss, dim=2, **options)


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return rng.standard_normal((12, 3)).astype("float32"), np.arange(12) // 3


def test_compiling_again_lets_the_old_loss_go(batch):
    model = make()
    model.compile("adam", loss=losses.BatchHardTripletLoss(), **QUICK)
    assert model.loss_layers == []
    assert len(model.trainable_variables) == 2
    model.fit(*batch, verbose=0)


def remembering():
    """A loss that learns, remembers, counts steps and draws."""
    margin = layers.ScheduledOption(keras.optimizers.schedules.PolynomialDecay(0.0, 4, 0.5))
    return losses.WeightedSumLoss(
        [
            losses.CosFaceLoss(classes=4, margin=margin),
            losses.ContrastiveLoss(pairing=layers.Memory(12, warm_up=0), miner=miners.BalancedPairs(seed=0)),
            losses.DynamicSoftMarginLoss(bins=8),
        ]
    )


@pytest.mark.slow
def test_a_loss_begins_from_its_start_in_every_model(batch):
    def trained(loss):
        keras.utils.set_random_seed(0)
        model = make(loss, **QUICK)
        model.fit(*batch, epochs=2, batch_size=12, **SETTINGS)
        return model

    loss = remembering()
    first, second = trained(loss), trained(loss)
    expected = trained(remembering())
    assert first.loss is loss
    for model in (first, second):
        for ours, theirs in zip(model.variables, expected.variables, strict=True):
            np.testing.assert_array_equal(numbers(ours), numbers(theirs))
    assert not {id(layer) for layer in first.loss_layers} & {id(layer) for layer in second.loss_layers}

    layer, learned = second.loss_layers[0], [numbers(weight) for weight in second.weights]
    second.compile("adam", loss=loss, **QUICK)  # the same model goes on with what it has learned
    assert second.loss_layers[0] is layer
    third = trained(second.loss)
    for ours, theirs in zip(third.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(numbers(ours), numbers(theirs))
    for weight, before in zip(second.weights, learned, strict=True):
        np.testing.assert_array_equal(numbers(weight), before)


def test_a_second_model_begins_with_the_values_that_were_assigned(batch):
    start = np.arange(8.0).reshape(4, 2)
    proxies = layers.Proxies(4)
    proxies.build((None,), (None, 2))
    proxies.vectors.assign(start)
    loss = losses.ProxyNCALoss(pairing=proxies)
    make(loss, **QUICK).fit(*batch, verbose=0)
    assert np.abs(numbers(proxies.vectors) - start).max() > 0
    np.testing.assert_array_equal(numbers(make(loss, **QUICK).loss.proxies.vectors), start)


def test_two_losses_over_one_layer_share_it_across_models(batch):
    proxies = layers.Proxies(4, seed=0)
    one, other = (make(losses.ProxyNCALoss(pairing=proxies), **QUICK) for _ in range(2))
    assert one.loss_layers == other.loss_layers == [proxies]


def test_a_layer_that_cannot_be_copied_is_refused_in_a_second_model():
    def half(step):  # not registered with Keras
        return 0.5 + 0.0 * keras.ops.cast(step, "float32")

    margin = layers.ScheduledOption(half)
    loss = losses.CosFaceLoss(classes=4, margin=margin)
    make(loss, **QUICK)
    with pytest.raises(ValueError, match=r"another model is compiled with, and its layer scheduled.* cannot be copied"):
        make(loss, **QUICK)


def test_models_without_loss_layers_and_without_a_loss_save_and_load(batch, tmp_path):
    uncompiled = linear(dim=2)
    model = make(losses.MultiSimilarityLoss(), **QUICK)
    assert model.loss_layers == []
    model.fit(*batch, verbose=0)
    for each in (uncompiled, model):
        each.save(tmp_path / "plain.keras")
        again = keras.saving.load_model(tmp_path / "plain.keras")
        np.testing.assert_array_equal(again.predict(batch[0], verbose=0), each.predict(batch[0], verbose=0))


X = np.random.default_rng(0).standard_normal((40, 3)).astype("float32")
LABELS = np.arange(40) // 5
SETTINGS = {"shuffle": False, "verbose": 0}


def scaled():
    """A model whose gradients overflow float16 until the scale of its loss has been halved some twenty times."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(2, dtype="mixed_float16")(inputs))
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=2.0**40)
    model.compile(optimizer, loss=losses.ContrastiveLoss(negative_margin=4.0, miner=miners.BalancedPairs(seed=0)))
    return model


def drawn(start=0):
    sampler = samplers.GroupSampler(classes_per_batch=4, examples_per_class=3, seed=0)
    return sampler.batches(X, LABELS, start=start)


@pytest.mark.slow
def test_a_run_that_skipped_steps_resumes_to_the_weights_of_an_uninterrupted_one(tmp_path):
    whole, broken = scaled(), scaled()
    whole.fit(drawn(), steps_per_epoch=40, **SETTINGS)
    broken.fit(drawn(), steps_per_epoch=15, **SETTINGS)
    broken.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.steps == 15
    assert numbers(again.optimizer.iterations) < 5
    again.fit(drawn(start=again.steps), steps_per_epoch=25, **SETTINGS)
    assert again.steps == whole.steps == 40
    assert numbers(whole.optimizer.iterations) > 10
    for ours, theirs in zip(again.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(numbers(ours), numbers(theirs))


@pytest.mark.slow
@pytest.mark.parametrize("options", [*EAGER, {"steps_per_execution": 1 if BACKEND == "torch" else 3}])
def test_steps_are_training_batches_and_nothing_else(batch, options):
    model = linear(dim=2)
    assert model.steps == 0
    model.compile("sgd", loss=losses.ContrastiveLoss(), **options)
    names = [weight.path for weight in model.weights]
    model.fit(*batch, batch_size=4, epochs=2, **SETTINGS)
    model.evaluate(*batch, batch_size=6, verbose=0)
    model.train_on_batch(*batch)
    model.predict(batch[0], verbose=0)
    assert model.steps == 7
    assert [weight.path for weight in model.weights] == names  # it is not a weight
    model.compile("sgd", loss=losses.ContrastiveLoss())
    assert model.steps == 0


def test_its_weights_fit_a_plain_model(batch, tmp_path):
    model = make(losses.MultiSimilarityLoss(), **QUICK)
    model.fit(*batch, **SETTINGS)
    model.save_weights(tmp_path / "model.weights.h5")
    inputs = keras.Input((3,))
    plain = keras.Model(inputs, keras.layers.Dense(2, name="dense")(inputs))
    plain.load_weights(tmp_path / "model.weights.h5")
    for ours, theirs in zip(plain.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def two_losses(shared, other):
    return [losses.ContrastiveLoss(miner=shared), losses.MarginLoss(miner=other)]


@pytest.mark.parametrize(
    ("make_losses", "kept"),
    [
        (lambda: two_losses(*[miners.BalancedPairs(seed=0)] * 2), 1),
        (lambda: two_losses(miners.BalancedPairs(seed=0), miners.BalancedPairs(seed=0)), 2),
        (
            lambda: [
                losses.RobustLoss(losses.ContrastiveLoss(miner=Scale()), uncertainty=losses.uncertainty.TopK(4)),
                losses.NCALoss(),
            ],
            1,
        ),
    ],
    ids=["one miner in two losses", "two equal miners", "the miner of a base"],
)
def test_a_file_keeps_which_layers_losses_share(batch, tmp_path, make_losses, kept):
    x, labels = batch
    inputs = keras.Input((3,))
    model = models.EmbeddingModel(inputs, [keras.layers.Dense(2)(inputs), keras.layers.Dense(2)(inputs)])
    model.compile("sgd", loss=make_losses(), **QUICK)
    model.fit(x, [labels, labels], **SETTINGS)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is models.EmbeddingModel
    assert len(model.loss_layers) == len(again.loss_layers) == kept
    for m in (model, again):
        m.fit(x, [labels, labels], **SETTINGS)
    assert numbers(again.optimizer.iterations) == 2
    for ours, theirs in zip(again.variables, model.variables, strict=True):
        np.testing.assert_array_equal(numbers(ours), numbers(theirs))


@pytest.mark.slow
def test_an_endless_dataset_needs_a_number_of_steps(batch):
    model, endless = make(), tf.data.Dataset.from_tensor_slices(batch).batch(4, drop_remainder=True).repeat()
    with pytest.raises(ValueError, match=r"endless dataset without steps_per_epoch.*len\(labels\) // 4"):
        model.fit(endless)
    with pytest.raises(ValueError, match="endless dataset without validation_steps"):
        model.fit(*batch, validation_data=endless)
    with pytest.raises(ValueError, match=r"without steps_per_epoch.*len\(labels\) // batch_size"):
        model.fit(tf.data.Dataset.from_tensor_slices(batch).repeat().batch(4))
    model.fit(endless, steps_per_epoch=2, validation_data=endless, validation_steps=1, **SETTINGS)
    model.fit(endless.take(2), **SETTINGS)
    assert model.steps == 4


@pytest.mark.parametrize("options", [{}, {"jit_compile": "auto"}, {"jit_compile": False}, {"jit_compile": True}])
def test_a_file_keeps_the_option_jit_compile_and_not_what_it_means_on_this_machine(options, tmp_path):
    model = make(losses.MultiSimilarityLoss(), **options)
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    config = json.loads(zipfile.ZipFile(tmp_path / "model.keras").read("config.json"))["compile_config"]
    assert config["jit_compile"] == options.get("jit_compile", "auto")
    assert keras.saving.load_model(tmp_path / "model.keras").jit_compile == model.jit_compile
