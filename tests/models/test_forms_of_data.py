"""Every form of data, labels and weights that `keras.Model.fit` takes gives its result, or a clearer error."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.backend import BACKEND, numbers
from tfdml import losses, miners, models

pytestmark = [pytest.mark.backends, pytest.mark.slow]

X = np.random.default_rng(0).standard_normal((24, 8)).astype("float32")
Y = np.arange(24) // 4
VECTORS = np.random.default_rng(1).standard_normal((24, 4)).astype("float32")
WEIGHTS = np.linspace(0.5, 1.5, 24).astype("float32")
TEXTS = np.array([f"word{number} text" for number in range(24)])
SUPCON, TRIPLET, MSE = losses.SupConLoss, losses.TripletLoss, keras.losses.MeanSquaredError
CLASSES = "sparse_categorical_crossentropy"


def dense(inputs):
    """One output."""
    return inputs, keras.layers.Dense(4, name="emb")(inputs)


def vector():
    return dense(keras.Input((8,), name="x"))


def two(form):
    """Two outputs, a dict or list of them."""

    def network():
        inputs = keras.Input((8,), name="x")
        outputs = keras.layers.Dense(4, name="emb")(inputs), keras.layers.Dense(6, "softmax", name="cls")(inputs)
        return inputs, form(outputs)

    return network


as_dict = two(lambda outputs: dict(zip(("emb", "cls"), outputs, strict=True)))
as_list = two(list)
as_tuple = two(tuple)
nested = two(lambda outputs: {"a": {"b": outputs[0]}, "c": outputs[1]})


def two_inputs(form):
    """Two inputs, a dict or list of them."""

    def network():
        inputs = keras.Input((8,), name="a"), keras.Input((8,), name="b")
        return form(inputs), keras.layers.Dense(4)(keras.layers.Add()(list(inputs)))

    return network


def words():
    inputs = keras.Input((), dtype="string")
    layer = keras.layers.TextVectorization(20, output_mode="multi_hot")
    layer.adapt(TEXTS)
    return inputs, keras.layers.Dense(4)(layer(inputs))


def ragged():
    inputs = keras.Input((None,), dtype="int32", ragged=True)
    x = keras.layers.Lambda(lambda x: tf.cast(tf.reduce_sum(x, axis=1), "float32")[:, None])(inputs)
    return inputs, keras.layers.Dense(4)(x)


def frozen():
    inputs = keras.Input((8,))
    layer = keras.layers.Dense(8, name="body")
    x = layer(inputs)
    layer.trainable = False
    return inputs, keras.layers.Dense(4, name="emb")(x)


class Batches(keras.utils.PyDataset):
    """Batches with every hook, which notes the calls of Keras."""

    def __init__(self, *extra, num_batches=2, **options):
        super().__init__(**options)
        self.extra, self.count, self.calls, self.epoch = extra, num_batches, [], 0

    @property
    def num_batches(self):
        return self.count

    def __getitem__(self, number):
        if self.count is None:  # Keras draws ahead as far as it comes
            return X[:12], Y[:12]
        self.calls.append(number)
        rows = slice(12 * (number % 2), 12 * (number % 2) + 12)
        return X[rows] * (1 + self.epoch), Y[rows], *(values[rows] for values in self.extra)

    def on_epoch_begin(self):
        self.calls.append("begin")
        self.epoch += 1

    def on_epoch_end(self):
        self.calls.append("end")


class Own(keras.utils.PyDataset):
    """Batches with an attribute of their own, and a length alone."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __len__(self):
        return 2

    def __getitem__(self, number):
        return X[:12], Y[:12]


def dataset(*data, rows=12):
    return tf.data.Dataset.from_tensor_slices(data if len(data) != 1 else data[0]).batch(rows)


def generated(*data, times=2):
    for _ in range(times):
        for start in (0, 12):
            yield keras.tree.map_structure(lambda values, at=start: values[at : at + 12], data)


def torch_batches(*data):
    import torch

    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*map(torch.as_tensor, data)), batch_size=12)


class Form(NamedTuple):
    """A network, arguments of `compile`, and a function that makes the arguments of `fit`."""

    data: Callable[[], dict[str, Any]]
    network: Callable[[], Any] = vector
    loss: Any = SUPCON
    options: Any = MappingProxyType({})


def arrays(x=X, y=Y, **options):
    return lambda: {"x": x, "y": y, "batch_size": 12, **options}


def batches(function, **options):
    return lambda: {"x": function(), **options}


BOTH = {"emb": SUPCON, "cls": lambda: CLASSES}
FIRST = {"emb": SUPCON}
IN_ORDER = [SUPCON, lambda: CLASSES]
LABELS = {"emb": Y, "cls": Y}
FORMS = {
    "arrays": Form(arrays()),
    "labels in a column": Form(arrays(y=Y[:, None])),
    "labels of int32": Form(arrays(y=Y.astype("int32"))),
    "tensors": Form(lambda: arrays(keras.ops.convert_to_tensor(X), keras.ops.convert_to_tensor(Y, "int32"))()),
    "float64": Form(arrays(X.astype("float64"))),
    "an array in a list": Form(arrays([X])),
    "an array in a tuple": Form(arrays((X,))),
    "an array by the name of its input": Form(arrays({"x": X})),
    "a list of numbers": Form(arrays(X.tolist())),
    "no labels": Form(arrays(y=None), loss=MSE),
    "no loss": Form(arrays(), loss=None),
    "labels in a list": Form(arrays(y=[Y])),
    "labels in a dict": Form(arrays(y={"emb": Y})),
    "one row": Form(arrays(X[:1], Y[:1])),
    "no rows": Form(arrays(X[:0], Y[:0])),
    "fewer labels": Form(arrays(y=Y[:20])),
    "a short last batch": Form(arrays(X[:20], Y[:20])),
    "shuffled": Form(arrays(shuffle=True)),
    "shuffled in batches": Form(arrays(shuffle="batch")),
    "steps": Form(arrays(steps_per_epoch=1)),
    "a Keras loss": Form(arrays(y=VECTORS), loss=MSE),
    "a name of a loss": Form(arrays(y=VECTORS), loss=lambda: "mse"),
    "float labels of a Keras loss in a list": Form(arrays(y=VECTORS.tolist()), loss=MSE),
    "a function": Form(arrays(y=VECTORS), loss=lambda: lambda y, x: keras.ops.mean(keras.ops.abs(y - x), axis=-1)),
    "run eagerly": Form(arrays(), options={"run_eagerly": True}),
    "a loss in a list": Form(arrays(), loss=[SUPCON]),
    "a loss in a dict": Form(arrays(), loss=FIRST),
    "sample weights": Form(arrays(sample_weight=WEIGHTS)),
    "sample weights in a column": Form(arrays(sample_weight=WEIGHTS[:, None])),
    "sample weights in a list": Form(arrays(sample_weight=WEIGHTS.tolist())),
    "fewer sample weights": Form(arrays(sample_weight=WEIGHTS[:20])),
    "class weights": Form(arrays(class_weight={number: 1.0 + number for number in range(6)})),
    "both weights": Form(arrays(class_weight={0: 2.0}, sample_weight=WEIGHTS)),
    "a dict of inputs": Form(arrays({"a": X, "b": X}), two_inputs(lambda x: dict(zip("ab", x, strict=True)))),
    "a dict of more": Form(arrays({"a": X, "b": X, "c": X}), two_inputs(lambda x: dict(zip("ab", x, strict=True)))),
    "a dict without one": Form(arrays({"a": X}), two_inputs(lambda x: dict(zip("ab", x, strict=True)))),
    "a list of inputs": Form(arrays([X, X]), two_inputs(list)),
    "a list by names": Form(arrays({"a": X, "b": X}), two_inputs(list)),
    "outputs in a dict": Form(arrays(y=LABELS), as_dict, BOTH),
    "outputs in a dict, labels in another order": Form(arrays(y={"cls": Y, "emb": Y}), as_dict, BOTH),
    "an output without a loss": Form(arrays(y={"emb": Y}), as_dict, FIRST),
    "an output with a loss of None": Form(arrays(y={"emb": Y}), as_dict, {"emb": SUPCON, "cls": None}),
    "an output without a loss, with labels": Form(arrays(y=LABELS), as_dict, FIRST),
    "an output without labels": Form(arrays(y={"emb": Y}), as_dict, BOTH),
    "labels of no output": Form(arrays(y={**LABELS, "other": Y}), as_dict, BOTH),
    "labels of no output, strings": Form(arrays(y={**LABELS, "path": TEXTS}), as_dict, BOTH),
    "labels in a list for a dict": Form(arrays(y=[Y, Y]), as_dict, BOTH),
    "one label for a dict": Form(arrays(), as_dict, FIRST),
    "a loss of no output": Form(arrays(y=LABELS), as_dict, {**BOTH, "other": SUPCON}),
    "a misspelled loss": Form(arrays(y=LABELS), as_dict, {"embedding": SUPCON}),
    "outputs in a list": Form(arrays(y=[Y, Y]), as_list, IN_ORDER),
    "outputs in a tuple": Form(arrays(y=(Y, Y)), as_tuple, IN_ORDER),
    "outputs in a list, losses by name": Form(arrays(y=[Y, Y]), as_list, BOTH),
    "outputs in a list, all by name": Form(arrays(y=LABELS), as_list, BOTH),
    "outputs in a list, one loss by name": Form(arrays(y=[Y, Y]), as_list, FIRST),
    "outputs in a list, one loss": Form(arrays(y=[Y, Y]), as_list, [SUPCON, None]),
    "outputs in a list, one loss, one label": Form(arrays(y=[Y]), as_list, [SUPCON, None]),
    "outputs in a list, fewer losses": Form(arrays(y=[Y, Y]), as_list, [SUPCON]),
    "outputs in a list, more losses": Form(arrays(y=[Y, Y]), as_list, [*IN_ORDER, SUPCON]),
    "outputs in a list, fewer labels": Form(arrays(y=[Y]), as_list, IN_ORDER),
    "one loss for all outputs": Form(arrays(y=[Y, Y]), as_list, SUPCON),
    "lists of losses for outputs": Form(arrays(y=[Y, Y]), as_list, [[SUPCON, TRIPLET], lambda: CLASSES]),
    "a list of losses in a dict": Form(arrays(y=LABELS), as_dict, {"emb": [SUPCON, TRIPLET], "cls": lambda: CLASSES}),
    "nested outputs": Form(arrays(y={"a": {"b": Y}, "c": Y}), nested, {"a": {"b": SUPCON}, "c": lambda: CLASSES}),
    "weights of losses": Form(arrays(y=LABELS), as_dict, BOTH, {"loss_weights": {"emb": 2.0, "cls": 0.5}}),
    "weights of losses in a list": Form(arrays(y=[Y, Y]), as_list, IN_ORDER, {"loss_weights": [2.0, 0.5]}),
    "fewer weights of losses": Form(arrays(y=[Y, Y]), as_list, IN_ORDER, {"loss_weights": [2.0]}),
    "more weights of losses": Form(arrays(), vector, SUPCON, {"loss_weights": [2.0, 1.0]}),
    "a weight of the loss": Form(arrays(), vector, SUPCON, {"loss_weights": 0.5}),
    "weights of outputs": Form(arrays(y=LABELS, sample_weight={"emb": WEIGHTS, "cls": WEIGHTS}), as_dict, BOTH),
    "a weight of one output": Form(arrays(y=LABELS, sample_weight={"emb": WEIGHTS}), as_dict, BOTH),
    "weights of a list": Form(arrays(y=[Y, Y], sample_weight=[WEIGHTS, WEIGHTS]), as_list, IN_ORDER),
    "class weights of a dict": Form(arrays(y=LABELS, class_weight={0: 2.0}), as_dict, BOTH),
    "accuracy of an output": Form(arrays(y=LABELS), as_dict, BOTH, {"metrics": {"cls": ["accuracy"]}}),
    "weighted accuracy": Form(arrays(y=[Y, Y]), as_list, IN_ORDER, {"weighted_metrics": [[], ["accuracy"]]}),
    "validation": Form(arrays(validation_data=(X, Y))),
    "validation with weights": Form(arrays(validation_data=(X, Y, WEIGHTS))),
    "validation in a list": Form(arrays(validation_data=[X, Y])),
    "validation of batches": Form(lambda: arrays(validation_data=dataset(X, Y))()),
    "validation of a generator": Form(lambda: arrays(validation_data=generated(X, Y), validation_steps=2)()),
    "validation of a PyDataset": Form(lambda: arrays(validation_data=Batches())()),
    "validation without labels": Form(arrays(validation_data=(X,))),
    "validation of x alone": Form(arrays(validation_data=X)),
    "validation of another batch size": Form(arrays(validation_data=(X, Y), validation_batch_size=7)),
    "validation of every second epoch": Form(arrays(validation_data=(X, Y), validation_freq=2)),
    "validation of listed epochs": Form(arrays(validation_data=(X, Y), validation_freq=[1])),
    "a part for validation": Form(arrays(validation_split=0.25)),
    "a part for validation, with weights": Form(arrays(validation_split=0.25, sample_weight=WEIGHTS)),
    "validation of outputs": Form(arrays(y=LABELS, validation_data=(X, LABELS)), as_dict, BOTH),
    "validation of an output without a loss": Form(
        arrays(y={"emb": Y}, validation_data=(X, {"emb": Y})), as_dict, FIRST
    ),
    "a PyDataset": Form(batches(Batches)),
    "a PyDataset with weights": Form(batches(lambda: Batches(WEIGHTS))),
    "a PyDataset without an end": Form(batches(lambda: Batches(num_batches=None), steps_per_epoch=2)),
    "a PyDataset in an order": Form(batches(Batches, shuffle=True)),
    "a PyDataset and class weights": Form(batches(Batches, class_weight={number: 2.0 for number in range(6)})),
    "a PyDataset with a length": Form(batches(Own)),
    "a PyDataset and labels": Form(batches(Batches, y=Y)),
    "a PyDataset of no batches": Form(batches(lambda: Batches(num_batches=0))),
    "a generator": Form(batches(lambda: generated(X, Y), steps_per_epoch=2)),
    "a generator of weights": Form(batches(lambda: generated(X, Y, WEIGHTS), steps_per_epoch=2)),
    "a generator that ends": Form(batches(lambda: generated(X, Y, times=1))),
    "a generator of nothing": Form(batches(lambda: iter(()))),
    "a generator of lists": Form(batches(lambda: map(list, generated(X, Y)))),
    "a generator of examples alone": Form(batches(lambda: generated(X)), loss=MSE),
    "a generator of one output": Form(batches(lambda: generated(X, {"emb": Y}), steps_per_epoch=2), as_dict, FIRST),
    "a dataset": Form(batches(lambda: dataset(X, Y))),
    "a dataset of weights": Form(batches(lambda: dataset(X, Y, WEIGHTS))),
    "a dataset and class weights": Form(
        batches(lambda: dataset(X, Y), class_weight={number: 2.0 for number in range(6)})
    ),
    "a dataset of dicts": Form(batches(lambda: dataset(X, LABELS)), as_dict, BOTH),
    "a dataset of one output": Form(batches(lambda: dataset(X, {"emb": Y})), as_dict, FIRST),
    "a dataset of examples in a dict": Form(batches(lambda: dataset({"x": X}, Y))),
    "a dataset of examples alone": Form(batches(lambda: dataset(X)), loss=MSE),
    "a dataset of a dict": Form(batches(lambda: dataset({"x": X})), loss=MSE),
    "a dataset of no batches": Form(batches(lambda: dataset(X, Y).take(0))),
    "a dataset that repeats": Form(batches(lambda: dataset(X, Y).repeat(), steps_per_epoch=2)),
    "a dataset and labels": Form(batches(lambda: dataset(X, Y), y=Y)),
    "a dataset of paths, too": Form(batches(lambda: dataset(X, {**LABELS, "path": TEXTS})), as_dict, BOTH),
    "frozen": Form(arrays(), frozen),
}
if BACKEND == "tensorflow":
    rows = tf.ragged.constant([[1] * (1 + number % 3) for number in range(24)], dtype="int32")
    FORMS |= {
        "texts": Form(arrays(TEXTS), words),
        "texts of objects": Form(arrays(TEXTS.astype(object)), words),
        "texts in a list": Form(arrays(TEXTS.tolist()), words),
        "texts in a tensor": Form(arrays(tf.constant(TEXTS)), words),
        "a dataset of texts": Form(batches(lambda: dataset(TEXTS, Y)), words),
        "validation of texts": Form(arrays(tf.constant(TEXTS), validation_data=(tf.constant(TEXTS), Y)), words),
        "ragged": Form(arrays(rows), ragged),
        "a dataset of ragged": Form(batches(lambda: dataset(rows, Y)), ragged),
    }
if BACKEND == "torch":
    FORMS["a DataLoader"] = Form(batches(lambda: torch_batches(X, Y)))
REFUSED = {"outputs in a list, fewer losses"}  # Keras would train the first output, and say nothing


def result(kind, form, **options):
    """What two epochs of `fit` write, or the error of `compile` or `fit`, and the calls of hooks."""
    keras.utils.set_random_seed(0)
    model, data = kind(*form.network()), form.data()
    loss = keras.tree.map_structure(lambda make: make and make(), form.loss)
    calls = getattr(data["x"], "calls", getattr(data.get("validation_data"), "calls", []))
    try:
        model.compile(keras.optimizers.SGD(0.01), loss=loss, **{**form.options, **options})
        run = model.fit(**{"shuffle": False, "epochs": 2, "verbose": 0, **data})
    except Exception as error:
        return error, calls
    return run.history | {"weights": list(map(numbers, model.trainable_variables))}, calls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMS)
def test_fit_has_the_result_of_keras_or_a_clearer_error(name):
    eager = {"run_eagerly": BACKEND == "tensorflow"}  # saves one of two traces
    expected, expected_calls = result(keras.Model, FORMS[name], **eager)
    found, calls = result(models.EmbeddingModel, FORMS[name])
    if isinstance(expected, Exception) or name in REFUSED:
        assert isinstance(found, ValueError | type(expected)), found
        return
    if isinstance(found, Exception):
        raise found
    assert expected.keys() == found.keys()
    for log, values in expected.items():
        for one, other in zip(values, found[log], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert calls == expected_calls


def test_a_model_that_is_not_compiled_says_so_as_keras_does():
    model = models.EmbeddingModel(*vector())
    for method in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match="must call `compile"):
            method(X, Y)


@pytest.mark.parametrize("copied", [keras.models.clone_model, "file"], ids=["clone", "file"])
def test_a_clone_and_a_loaded_model_train_as_the_model_does(copied, tmp_path):
    keras.utils.set_random_seed(0)
    model = models.EmbeddingModel(*frozen())
    model.compile(keras.optimizers.SGD(0.01), loss=SUPCON())
    model.save(tmp_path / "model.keras")
    other = keras.saving.load_model(tmp_path / "model.keras") if copied == "file" else copied(model)
    if not other.compiled:
        other.compile(keras.optimizers.SGD(0.01), loss=SUPCON())
    other.set_weights(model.get_weights())
    runs = [each.fit(X, Y, batch_size=12, shuffle=False, verbose=0).history["loss"] for each in (model, other)]
    np.testing.assert_allclose(*runs, rtol=1e-5)


LISTED = [  # loss, loss_weights, message
    ([SUPCON(), TRIPLET()], None, r"a list of 2 losses for 1 outputs, .*WeightedSumLoss"),
    ({"emb": SUPCON(), "cls": MSE()}, None, r"losses of \['cls'\], expected names of outputs among \['emb'\]"),
    (SUPCON(), [1.0, 2.0], "2 loss_weights for 1 losses"),
    (losses.functional.triplet, None, "PairLoss"),
    (miners.ValidTriplets(), None, "ContrastiveLoss.miner="),
]


@pytest.mark.parametrize(("loss", "weights", "message"), LISTED)
def test_losses_that_do_not_fit_the_outputs_are_an_error_of_compile(loss, weights, message):
    with pytest.raises(ValueError, match=message):
        models.EmbeddingModel(*vector()).compile("sgd", loss=loss, loss_weights=weights)
