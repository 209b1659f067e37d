"""A network whose embeddings become all the same says so, and a right program does not."""

import warnings

import keras
import numpy as np
import pytest

from tfdml import losses, models, pairs, samplers

pytestmark = pytest.mark.backends

X = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
LABELS = np.arange(32) // 4


def network(scale=None, loss=None, **options):
    """A linear network, or one whose weights are all equal to a number; biases are 1."""
    kernel = "glorot_uniform" if scale is None else keras.initializers.Constant(scale)
    inputs = keras.Input((4,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(3, "sigmoid", kernel_initializer=kernel)(inputs))
    loss = loss or losses.TripletLoss(margin=0.2)
    model.compile(keras.optimizers.SGD(options.pop("rate", 0.0)), loss=loss, **options)
    return model


def said(model, x=X, labels=LABELS, **options):
    """The warnings of a `fit`."""
    keras.utils.set_random_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, labels, verbose=0, **{"batch_size": 16, "epochs": 2, **options})
    return [str(warning.message) for warning in caught if "collapsed" in str(warning.message)]


@pytest.mark.parametrize("scale", [0.0, 1e-6])
def test_a_constant_network_is_named_once_with_advice(scale):
    model = network(scale)
    (text,) = said(model, epochs=3)
    assert text.startswith("The embeddings of the last 2 batches of epoch 1 were all the same, but for rounding")
    assert "lower learning rate" in text
    assert model.evaluate(X, LABELS, verbose=0) == pytest.approx(0.2, abs=1e-4), "the margin"
    assert model.steps == 6


def test_a_network_that_collapses_in_training_is_named_at_its_end():
    """Positives alone have a loss, so the embeddings come together; a single class is another matter."""
    (text,) = said(network(loss=losses.ContrastiveLoss(negative_margin=1e-3), rate=2.0), epochs=200)
    assert "batches differed by less than 2% of their size: the network has collapsed" in text
    assert "inputs" not in text, "they were apart before"


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (LABELS, {}),
        (np.zeros(32, int), {"x": np.tile(X[:1], (32, 1))}),  # one item
        (LABELS, {"batch_size": 1}),
        (LABELS, {"epochs": 0}),
    ],
    ids=["varied", "one item", "batches of one", "no step"],
)
@pytest.mark.filterwarnings("ignore:.*of the anchors:UserWarning")
def test_a_right_program_is_not_warned(labels, options):
    scale, xla = None if options == {} else 0.0, keras.backend.backend() != "torch"
    assert said(network(scale, jit_compile=xla), labels=labels, **options) == []


def test_views_without_labels_are_watched_and_scores_are_not():
    views = losses.NTXentLoss(pairing=pairs.two_views)
    assert said(network(0.0, views), labels=np.zeros(32, int), shuffle=False)
    inputs = keras.Input((4,))
    scores = models.EmbeddingModel(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
    scores.compile("sgd", loss="mse")
    assert said(scores, labels=np.zeros(32)) == []


def test_batches_of_a_sampler_and_steps_that_are_compiled_are_watched():
    sampler = samplers.GroupSampler(classes_per_batch=4, examples_per_class=2, seed=0)
    model = network(0.0, jit_compile=keras.backend.backend() != "torch")
    (text,) = said(model, sampler.batches(X, LABELS), None, batch_size=None, steps_per_epoch=5, shuffle=False)
    assert "last 5 batches of epoch 1" in text


def test_a_file_keeps_the_steps_and_forgets_the_collapse(tmp_path):
    model = network(0.0)
    assert said(model)
    model.save(tmp_path / "model.keras")
    model = keras.saving.load_model(tmp_path / "model.keras")
    assert (model.steps, model._collapsed_steps) == (4, (0, 0))
