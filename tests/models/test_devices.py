"""Errors of batches that devices do not divide, of processes that differ, and of variables over processes."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.worlds import linear
from tfdml import callbacks, losses, samplers
from tfdml.models import devices

X, LABELS = np.random.default_rng(0).standard_normal((48, 5)).astype("float32"), np.arange(48) // 6


class Devices(types.SimpleNamespace):
    """Stands in for `keras.distribution.DataParallel` on several devices and processes."""

    num_model_replicas, num_processes, auto_shard_dataset = 4, 1, True


@pytest.fixture
def several(monkeypatch):
    """Makes a distribution with these attributes the current one, seen from process 0."""

    def set_distribution(**attributes):
        keras.distribution.set_distribution(Devices(**attributes))
        processes = (0, attributes.get("num_processes", 1))
        monkeypatch.setattr(devices, "process", lambda: processes)

    yield set_distribution
    keras.distribution.set_distribution(None)


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (lambda model: model.fit(X, LABELS, batch_size=6), 6),
        (lambda model: model.fit(X[:42], LABELS[:42]), 10),  # the last batch
        (lambda model: model.fit(X, LABELS, validation_split=1 / 48), 15),
        (lambda model: model.fit(X, LABELS, validation_data=(X[:33], LABELS[:33])), 1),
        (lambda model: model.fit(samplers.UniformSampler(batch_size=6).batches(X, LABELS), steps_per_epoch=1), 6),
        (lambda model: model.evaluate(X[:5], LABELS[:5]), 5),
        (lambda model: model.evaluate(X, LABELS, 7), 7),
        (lambda model: model.predict(X[:33]), 1),
        (lambda model: model.train_on_batch(X[:45], LABELS[:45]), 45),
        (lambda model: model.test_on_batch(X[:3], LABELS[:3]), 3),
    ],
)
def test_a_batch_that_the_devices_do_not_divide_is_refused_before_training(several, call, rows):
    model = linear(losses.MultiSimilarityLoss(), features=5, optimizer="sgd")
    several()
    message = f"Received a batch of {rows} rows for 4 devices, expected a multiple of 4. Change the batch size, leave"
    with pytest.raises(ValueError, match=message):
        call(model)
    assert model.steps == 0


def test_batches_that_the_devices_divide_or_of_unknown_size_are_not_refused(several):
    unknown = tf.data.Dataset.from_tensor_slices(X).batch(5)
    sets = [(X, 12), (X[:40], None), ({"x": X}, 8), (unknown, None), (iter(()), None), ([1.0], None), (None, 3)]
    for x, size in sets:
        devices.require_divisible(x, size)
        several()
        devices.require_divisible(x, size)


def test_processes_with_their_own_rows_together_have_a_batch_that_the_devices_divide(several):
    several(num_processes=2, auto_shard_dataset=False)
    devices.require_divisible(X, 6)  # 12 rows
    with pytest.raises(ValueError, match="Received a batch of 10 rows for 4 devices"):
        devices.require_divisible(X, 5)


def test_the_first_process_that_differs_is_named():
    devices.require_equal(["keras 3", "keras 3"], "the same")
    with pytest.raises(
        ValueError, match=r"Received keras 3 in process 0 and keras 4 in process 2 of 4, expected the same\."
    ):
        devices.require_equal(["keras 3", "keras 3", "keras 4", "keras 5"], "the same")


class Indivisible(keras.layers.Layer):
    """Stands in for proxies whose rows a layout does not divide."""

    def build(self, *shapes):
        raise ValueError("axis 0 is partitioned 8 times")


def test_a_layout_that_does_not_divide_proxies_is_named_when_the_model_is_compiled(several):
    with pytest.raises(ValueError, match="axis 0"):
        devices.build_layer(Indivisible(), (None,), (None, 4))
    several()
    message = (
        r"Received a layout that does not divide the variables of proxies, .* a larger number of classes, .*: axis 0"
    )
    with pytest.raises(ValueError, match=message):
        devices.build_layer(Indivisible(name="proxies"), (None,), (None, 4))


class Part(types.SimpleNamespace):
    """Stands in for a shard of a JAX array that this process has."""


class Variable(types.SimpleNamespace):
    """Stands in for a variable over the devices of several processes."""

    path, shape, dtype = "proxies/vectors", (4, 2), "float32"


def over_processes(*rows):
    """A variable of 4 rows of which this process has some, each row on two devices."""
    whole = np.arange(8, dtype="float32").reshape(4, 2)
    parts = [Part(index=(slice(row, row + 1), slice(None)), data=whole[row : row + 1]) for row in rows] * 2
    value = types.SimpleNamespace(
        is_fully_addressable=False, is_fully_replicated=False, addressable_shards=parts, size=8, shape=(4, 2)
    )
    return Variable(value=value, _value=value)


def test_a_variable_that_one_process_has_in_parts_is_read_as_a_whole(several):
    several(num_processes=2)
    variable, ready = over_processes(2, 0, 3, 1), Variable(value=np.ones(3), _value=1)
    with devices.in_one_process([variable, ready]):
        np.testing.assert_array_equal(variable._value, np.arange(8).reshape(4, 2))
        assert ready._value == 1
    assert variable._value is variable.value


def test_a_variable_that_no_process_has_as_a_whole_is_an_error_when_training_begins(several):
    several(num_processes=2)
    message = (
        r"Received proxies/vectors, of which process 0 has 2 parts and other processes the rest, expected all parts in "
        r"every process. Give the mesh one row of devices per process, .*DeviceMesh\(\(processes, devices_per_process\)"
    )
    checkpoint = callbacks.TrainingCheckpoint("state.keras")
    checkpoint.set_model(types.SimpleNamespace(variables=[over_processes(0, 1)]))
    with pytest.raises(ValueError, match=message):
        checkpoint.on_train_begin()
