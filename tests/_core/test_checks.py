"""Masked arrays are refused, since a tensor would lose the mask; tensors and columns of others are read."""

from functools import partial

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, numbers
from tests.worlds import linear
from tfdml import addons, importance, layers, losses, metrics, miners, pairs, samplers
from tfdml._core.checks import as_ids, as_vectors
from tfdml.importance.probabilities import group_probabilities, uniform_probabilities
from tfdml.search import hard_pairs as offline

pytestmark = pytest.mark.backends

LABELS = np.array([0, 0, 1, 1, 2, 2])
X = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
SQUARE = X @ X.T
COUNTS = np.array([2, 2, 2])


def pairing_of_ones_own(labels, embeddings):
    return pairs.all_pairs(np.asarray(labels), np.asarray(embeddings))


# name: function of an argument that may be masked, and the argument without a mask.
OF_LABELS = {
    "all pairs": lambda labels: pairs.all_pairs(labels, X),
    "references": lambda labels: pairs.pairs_with(LABELS, X, labels, X),
    "labels that match says": lambda labels: pairs.all_pairs(labels, X, match=lambda a, b: a[:, None] == b),
    "loss": lambda labels: losses.ContrastiveLoss()(labels, X),
    "loss of one's own pairing": lambda labels: losses.ContrastiveLoss(pairing=pairing_of_ones_own)(labels, X),
    "addons": lambda labels: addons.TripletHardLoss()(labels, X),
    "offline miner": lambda labels: offline.hardest_pairs(X, labels),
    "Q of labels": uniform_probabilities(COUNTS).of,
}
OF_EMBEDDINGS = {
    "all pairs": lambda x: pairs.all_pairs(LABELS, x),
    "references": lambda x: pairs.pairs_with(LABELS, X, LABELS, x),
    "loss": lambda x: losses.ContrastiveLoss()(LABELS, x),
    "robust loss": lambda x: losses.RobustLoss(losses.MarginLoss(), uncertainty=losses.uncertainty.TopK(2))(LABELS, x),
    "loss of one's own pairing": lambda x: losses.ContrastiveLoss(pairing=pairing_of_ones_own)(LABELS, x),
    "addons": lambda x: addons.TripletHardLoss()(LABELS, x),
    "offline miner": lambda x: offline.hardest_pairs(x, LABELS),
}
OF_COUNTS = {
    "group": lambda counts: group_probabilities(counts, classes_per_batch=2, examples_per_class=2),
    "loss": lambda counts: losses.BalancedContrastiveLoss(class_counts=counts),
    "super-classes": lambda classes: importance.probabilities.super_classes_of(np.arange(3), classes),
    "induced lambda": lambda counts: importance.induced_lambda(counts, 2, 3),
}
ROWS = {
    f"{name}, {kind}": (function, plain)
    for kind, plain, functions in (
        ("labels", LABELS, OF_LABELS),
        ("embeddings", X, OF_EMBEDDINGS),
        ("counts", COUNTS, OF_COUNTS),
    )
    for name, function in functions.items()
}


@pytest.mark.parametrize(("function", "plain"), ROWS.values(), ids=ROWS)
def test_masked_entries_are_refused_and_a_mask_of_none_passes(function, plain):
    function(np.ma.masked_array(plain, mask=False))
    mask = np.zeros(plain.shape, bool)
    mask[1:3] = True
    with pytest.raises(ValueError, match=rf"Received .* with {mask.sum()} masked entries, expected an array without"):
        function(np.ma.masked_array(plain, mask=mask))


def test_a_miner_of_ones_own_never_sees_a_masked_batch():
    loss = losses.ContrastiveLoss(miner=miners.ValidTriplets())
    with pytest.raises(ValueError, match="Received embeddings with 4 masked entries"):
        loss(LABELS, np.ma.masked_less(X, np.sort(X, axis=None)[4]))


class Proxies(layers.Boundaries):
    """A pairing that is a layer, whose inputs Keras makes tensors of the backend."""

    def call(self, labels, embeddings):
        return pairs.all_pairs(labels, embeddings)


def test_a_pairing_that_is_a_layer_keeps_large_ids_apart_or_they_are_refused():
    loss = losses.ContrastiveLoss(pairing=Proxies())
    far = LABELS + 2**32 * np.arange(6)  # six classes, three where only 32 bits are left
    if BACKEND == "jax":
        for labels in (far, far.astype("uint64"), far.tolist(), far[:, None]):
            with pytest.raises(ValueError, match=f"Received label {2**32} on a backend that holds 32-bit integers"):
                loss(labels, X)
    else:
        np.testing.assert_array_equal(numbers(loss(far, X)), numbers(loss(np.arange(6), X)))


def model():
    return linear(losses.ContrastiveLoss(), features=4, dim=3, optimizer="sgd")


def test_a_model_refuses_masked_examples_and_labels():
    masked = np.ma.masked_less(X, X.max())
    with pytest.raises(ValueError, match=r"examples with .* masked entries"):
        model().fit(masked, LABELS)
    with pytest.raises(ValueError, match=r"labels with .* masked entries"):
        model().evaluate(X, np.ma.masked_equal(LABELS, LABELS[0]))


@pytest.mark.filterwarnings("ignore:0.0% of the anchors")  # no two ids are the same
def test_fit_keeps_the_ids_apart_that_the_backend_holds_and_samplers_refuse_others():
    far, sampler = LABELS + 2**32 * np.arange(6), samplers.UniformSampler(batch_size=6, seed=0)
    if BACKEND == "jax":
        same = model()
        refused = [lambda: sampler.batches(X, far), lambda: same.fit(X, LABELS, validation_data=(X, far))]
        refused += [
            partial(call, X, far) for call in (same.fit, same.evaluate, same.train_on_batch, same.test_on_batch)
        ]
        for call in refused:
            with pytest.raises(ValueError, match=f"Received label {2**32} on a backend that holds 32-bit integers"):
                call()
    else:
        same = model()
        same.optimizer.learning_rate = 0.0  # its weights stay, so that one model is compiled
        values = [same.fit(X, ids, batch_size=6, verbose=0).history["loss"] for ids in (far, np.arange(6), LABELS)]
        assert values[0] == values[1] != values[2]
        sampler.batches(X, far)


FORMS = {
    "text": (np.array(["b", "a", "b", "c"]), "np.unique(labels, return_inverse=True)[1]"),
    "objects": (np.array(["b", "a", "b", "c"], object), "np.unique(labels, return_inverse=True)[1]"),
    "one-hot lists": ([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], "np.argmax(labels, axis=1)"),
    "one-hot": (np.eye(3)[[1, 0, 1, 2]], "np.argmax(labels, axis=1)"),
    "one-hot integers": (np.eye(3, dtype="int64")[[1, 0, 1, 2]], "np.argmax(labels, axis=1)"),
    "floats": (np.array([1.0, 0.0, 1.0, 2.0]), "np.asarray(labels).astype('int64')"),
}
FOUR = X[:4]
USERS = {
    "a loss": lambda labels: losses.TripletLoss()(labels, FOUR),
    "a loss over proxies": lambda labels: losses.CosFaceLoss(classes=3)(labels, FOUR),
    "a sampler": lambda labels: samplers.UniformSampler(batch_size=2).index_batches(labels),
    "a metric": lambda labels: metrics.retrieval(FOUR, labels, k=1),
}


@pytest.mark.parametrize("use", USERS.values(), ids=USERS)
@pytest.mark.parametrize(("labels", "command"), FORMS.values(), ids=FORMS)
def test_labels_of_another_form_are_refused_with_a_command_that_makes_ids_of_them(use, labels, command):
    with pytest.raises(ValueError, match="Received labels of") as error:
        use(labels)
    assert command in str(error.value)
    ids = eval(command, {"labels": labels, "np": np})
    assert ids.tolist()[:3] == [1, 0, 1]
    use(ids)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_vectors_and_ids_are_read_from_tensors(dtype):
    tensor = keras.ops.convert_to_tensor(X, dtype)
    expected = numbers(keras.ops.cast(tensor, "float32"))
    if BACKEND == "torch":
        tensor.requires_grad_()
    vectors = as_vectors(tensor, "x")
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected)
    np.testing.assert_array_equal(as_ids(keras.ops.convert_to_tensor(LABELS), "labels"), LABELS)
