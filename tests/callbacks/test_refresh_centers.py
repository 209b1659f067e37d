"""Class centers are those of the model that trains, at a bounded cost."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import callbacks, losses, models, samplers

COUNTS = np.array([3, 12, 5, 9, 2, 7])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(6), COUNTS))
X = np.random.default_rng(1).standard_normal((len(LABELS), 5)).astype("float32")


class Source:
    """Examples that count how often they are read."""

    def __init__(self):
        self.reads = np.zeros(len(X), int)

    def __len__(self):
        return len(X)

    def __getitem__(self, rows):
        assert (np.diff(rows) > 0).all()
        self.reads[rows] += 1
        return X[rows]


def make():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(3)(inputs))
    model.compile(keras.optimizers.SGD(0.1), loss=losses.MultiSimilarityLoss())
    return model


def fit(model, *more, centers, epochs=4, **options):
    sampler = samplers.HardClassSampler(classes_per_batch=3, examples_per_class=2, centers=centers)
    dataset = sampler.batches(X, LABELS)
    return model.fit(
        dataset, steps_per_epoch=2, epochs=epochs, shuffle=False, verbose=0, callbacks=list(more), **options
    ).history


def test_fit_trains_on_batches_of_the_centers_that_it_refreshes():
    model, centers = make(), samplers.ClassCenters(LABELS, dim=3)
    history = fit(model, callbacks.RefreshCenters(centers, X, LABELS), centers=centers)
    assert np.isfinite(history["loss"]).all()
    assert int(centers.refreshes) == 4
    assert np.ptp(centers.centers.numpy()) > 0


def test_centers_are_means_of_the_embeddings_of_the_model_now():
    model, centers = make(), samplers.ClassCenters(LABELS, dim=3)
    refresh = callbacks.RefreshCenters(centers, X, LABELS[:, None], examples_per_class=100, batch_size=7)
    fit(model, refresh, centers=centers)
    refresh.refresh(model)
    embeddings = model.predict(X, verbose=0)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    expected = [embeddings[label == LABELS].mean(axis=0) for label in range(6)]
    np.testing.assert_allclose(centers.centers, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("every", "times"), [(1, 4), (2, 2), (3, 2), (4, 1)])
def test_so_many_examples_of_each_class_are_embedded_when_training_begins_and_between_epochs(every, times):
    centers, source = samplers.ClassCenters(LABELS, dim=3), Source()
    refresh = callbacks.RefreshCenters(centers, source, LABELS, examples_per_class=4, batch_size=5, every=every)
    fit(make(), refresh, centers=centers)
    assert int(centers.refreshes) == times
    assert set(source.reads) == {0, times}
    read = np.bincount(LABELS, weights=source.reads > 0)
    np.testing.assert_array_equal(read, np.minimum(COUNTS, 4))


def test_another_seed_embeds_other_examples():
    centers = samplers.ClassCenters(LABELS, dim=3)
    rows = [callbacks.RefreshCenters(centers, X, LABELS, examples_per_class=4, seed=seed).rows for seed in (0, 0, 1)]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert set(rows[0]) != set(rows[2])


def test_the_first_batch_is_drawn_after_the_first_refresh():
    centers, seen = samplers.ClassCenters(LABELS, dim=3), []
    sampler = samplers.HardClassSampler(classes_per_batch=3, examples_per_class=2, centers=centers)

    def look(rows):
        seen.append(int(centers.refreshes))
        return X[rows], LABELS[rows]

    def load(rows):
        x, labels = tf.numpy_function(look, [rows], [tf.float32, tf.int64])
        return tf.ensure_shape(x, (6, 5)), tf.ensure_shape(labels, (6,))

    refresh = callbacks.RefreshCenters(centers, X, LABELS)
    dataset = sampler.index_batches(LABELS).map(load)
    make().fit(dataset, steps_per_epoch=2, epochs=3, shuffle=False, verbose=0, callbacks=[refresh])
    assert seen[:6] == [1, 1, 2, 2, 3, 3]


def test_a_run_that_resumes_begins_with_the_centers_of_its_model():
    model, centers = make(), samplers.ClassCenters(LABELS, dim=3)
    refresh = callbacks.RefreshCenters(centers, X, LABELS)
    fit(model, refresh, centers=centers, epochs=2)
    refresh.refresh(model)
    again = samplers.ClassCenters(LABELS, dim=3)
    before = []
    spy = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: before.append(again.centers.numpy()))
    fit(model, callbacks.RefreshCenters(again, X, LABELS), spy, centers=again, epochs=4, initial_epoch=2)
    np.testing.assert_array_equal(before[0], centers.centers)
    assert len(before) == 2
    assert int(again.refreshes) == 2


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (LABELS, dict(every=0), "Received every=0, expected a whole number of at least 1"),
        (LABELS, dict(batch_size=2.0), r"Received batch_size=2\.0"),
        (LABELS, dict(examples_per_class=0), "Received examples_per_class=0"),
        (LABELS, dict(seed=-1), "Received seed=-1, expected a whole number of at least 0"),
        (LABELS[1:], {}, "Received 38 images and 37 labels, expected the same number"),
        (
            np.maximum(LABELS, 1),
            {},
            "Received labels of 5 classes, expected the 6 of <ClassCenters of 6 classes, dim=3>",
        ),
        (LABELS * 1.0, {}, "Received labels of dtype float64"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_callback_is_made(labels, options, message):
    with pytest.raises(ValueError, match=message):
        callbacks.RefreshCenters(samplers.ClassCenters(LABELS, dim=3), X, labels, **options)
