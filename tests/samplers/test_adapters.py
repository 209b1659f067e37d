"""Batches by their number, in parts, and from grain."""

import os
import pickle
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.samplers.sources import Source
from tests.samplers.test_contract import LABELS, SAMPLERS, stream
from tfdml import losses, models, samplers
from tfdml.datasets import LabeledSet
from tfdml.samplers.streams.batch_source import BatchSource, Loading

X = np.random.default_rng(0).standard_normal((len(LABELS), 3)).astype("float32")
GROUP = SAMPLERS["group"].sampler


def test_the_parts_of_a_batch_are_the_batch():
    parts = [GROUP.index_batches(LABELS, num_parts=3, part_index=part)[:5] for part in range(3)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), stream(GROUP)[:5])


def augment(x, seed):
    """A number of its own for each row of each step."""
    return x + tf.cast(seed[0] % 97, "float32")


@pytest.mark.slow
def test_parts_of_two_sets_and_of_listed_pairs_have_their_labels():
    two = samplers.TwoSetSampler(classes_per_batch=4, seed=1)
    (x, y), labels = next(iter(two.batches((X, LABELS), (X, LABELS), num_parts=2, part_index=1)))
    (whole_x, whole_y), whole = next(iter(two.batches((X, LABELS), (X, LABELS))))
    for part, both in ((x, whole_x), (y, whole_y), (labels, whole)):
        np.testing.assert_array_equal(part, both[2:])
    listed = SAMPLERS["listed"].sampler
    x, labels = next(iter(listed.batches(X, num_parts=3, part_index=2)))
    whole_x, whole = next(iter(listed.batches(X)))
    np.testing.assert_array_equal(x, whole_x[8:])
    np.testing.assert_array_equal(labels, whole[8:])


def test_a_batch_before_the_first_is_an_error():
    with pytest.raises(ValueError, match="Received t=-1"):
        GROUP.index_batches(LABELS)[-1]


def processes(monkeypatch, **attributes):
    """Two processes of one run."""
    found = types.SimpleNamespace(num_processes=2, num_model_replicas=4, **attributes)
    monkeypatch.setattr(keras.distribution, "distribution", lambda: found)


def test_parts_that_keras_would_divide_again_and_whole_batches_that_it_does_not_are_refused(monkeypatch):
    processes(monkeypatch, auto_shard_dataset=True)
    GROUP.batches(X, LABELS)
    with pytest.raises(ValueError, match=r"parts of batches with auto_shard_dataset=True, .*auto_shard_dataset=False"):
        GROUP.batches(X, LABELS, num_parts=2)
    with pytest.raises(ValueError, match=r"batches without tf\.data with auto_shard_dataset=True"):
        samplers.grain_batches(GROUP, X, LABELS)
    processes(monkeypatch, auto_shard_dataset=False)
    GROUP.batches(X, LABELS, num_parts=2)
    GROUP.batches(X, LABELS, num_shards=2)
    with pytest.raises(ValueError, match=r"num_parts=1 with .* all 2 processes would train on the same rows, expected"):
        GROUP.batches(X, LABELS)


def equal(grain_batches, batches, count):
    for ours, theirs in zip(grain_batches, batches.take(count), strict=False):
        keras.tree.map_structure(lambda x, y: np.testing.assert_array_equal(x, y, strict=True), ours, theirs)


PLACE = dict(start=70, num_shards=2, shard_index=1, num_parts=3, part_index=1)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ({"x": X, "twice": 2 * X}, {}),
        (X, {"load": lambda x: 2 * x, "augment": augment, **PLACE}),
        (Source(len(X), lambda row: {"x": X[row], "row": np.int64(row)}), {}),
    ],
)
def test_grain_loads_as_tf_data_does(data, options):
    pytest.importorskip("grain")
    equal(samplers.grain_batches(GROUP, data, LABELS, **options), GROUP.batches(data, LABELS, **options), 3)


def test_grain_takes_a_labeled_set():
    pytest.importorskip("grain")
    images = np.random.default_rng(1).integers(0, 256, (len(LABELS), 4, 4, 1), "uint8")
    train = LabeledSet(labels=LABELS, class_names=tuple(map(str, range(11))), images=images)
    equal(samplers.grain_batches(GROUP, train), GROUP.batches(train), 2)


def test_a_worker_opens_a_memory_map_itself(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = BatchSource(GROUP.index_batches(LABELS), Loading((mapped, mapped[:, :2]), None, LABELS, None))
    saved = pickle.dumps(source)
    assert bytes(X[:, 0]) not in saved
    (first, second), labels = pickle.loads(saved)[3]
    np.testing.assert_array_equal(first, X[stream(GROUP)[3]])
    np.testing.assert_array_equal(second, X[stream(GROUP)[3], :2])
    np.testing.assert_array_equal(labels, LABELS[stream(GROUP)[3]])


def load(x):
    return np.append(x, os.getpid())


@pytest.mark.slow
def test_worker_processes_make_the_same_batches_and_a_model_trains_on_them():
    pytest.importorskip("grain")
    options = {"load": load, "start": 70, "workers": 1}
    batches = iter(samplers.grain_batches(GROUP, X.astype("float64"), LABELS, **options))
    for t in range(3):
        x, labels = next(batches)
        rows = stream(GROUP)[70 + t]
        np.testing.assert_array_equal(x[:, :3], X[rows])
        np.testing.assert_array_equal(labels, LABELS[rows])
        assert len(set(x[:, 3])) == 1
        assert x[0, 3] != os.getpid()
    inputs = keras.Input((3,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(2)(inputs))
    model.compile("sgd", loss=losses.MultiSimilarityLoss())
    model.fit(((x[:, :3], labels) for x, labels in batches), steps_per_epoch=2, epochs=2, shuffle=False, verbose=0)
    assert model.steps == 4
    batches.close()


def test_a_model_trains_on_batches_of_grain():
    pytest.importorskip("grain")
    inputs = keras.Input((3,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(2)(inputs))
    model.compile("sgd", loss=losses.MultiSimilarityLoss())
    batches = samplers.grain_batches(GROUP, X, LABELS)
    ours = model.fit(batches, steps_per_epoch=2, epochs=2, shuffle=False, verbose=0).history
    assert model.steps == 4
    assert np.isfinite(ours["loss"]).all()
    with pytest.raises(ValueError, match="endless dataset without steps_per_epoch"):
        model.fit(samplers.grain_batches(GROUP, X, LABELS), shuffle=False)


def broken(x):
    raise OSError("no such file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(workers=-1), "Received workers=-1, expected a whole number of at least 0"),
        (dict(prefetch=0), "Received prefetch=0"),
        (dict(labels=LABELS[1:]), r"Received data of shape \(90, 3\) and 89 labels\. Expected one label per row"),
        (dict(labels=LABELS * 0.5), "Received labels of dtype float64"),
        (dict(num_parts=5), "Received num_parts=5 for batches of 12 rows"),
        (dict(sampler="hard class", workers=1), "workers=1 for HardClassSampler, whose batches follow the model in tr"),
        (dict(sampler="mined", workers=2), "workers=2 for MinedSampler, .* expected workers=0"),
        (dict(sampler="listed"), "Received ListSampler, whose batches have another form .*index_batches"),
        (dict(data=5), r"Received data of shape \(\) and 90 labels"),
    ],
)
def test_what_grain_cannot_do_is_refused_at_the_call(options, message):
    pytest.importorskip("grain")
    sampler = SAMPLERS[options.get("sampler", "group")].sampler
    others = {name: value for name, value in options.items() if name != "sampler"}
    with pytest.raises(ValueError, match=message):
        samplers.grain_batches(sampler, **{"data": X, "labels": LABELS, **others})


def test_a_row_that_cannot_be_loaded_is_named():
    pytest.importorskip("grain")
    row = stream(GROUP)[0, 0]
    with pytest.raises(
        ValueError, match=rf"Received row {row} \(label .*\), which cannot be loaded: no such file\. Leave out"
    ):
        next(iter(samplers.grain_batches(GROUP, X, LABELS, load=broken)))
    with pytest.raises(ValueError, match=r"Received data of .* NaN|Received NaN"):
        samplers.grain_batches(GROUP, np.full_like(X, np.nan), LABELS)
