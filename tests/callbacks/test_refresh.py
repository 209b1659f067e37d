"""Class centers and mined pairs follow the model that trains, at a bounded cost."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.worlds import linear
from tfdml import callbacks, losses, samplers, search
from tfdml.search.hard_pairs import hardest_pairs

COUNTS = np.array([3, 12, 5, 9, 2, 7])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(6), COUNTS))
X = np.random.default_rng(1).standard_normal((len(LABELS), 5)).astype("float32")


class Source:
    """Examples that count how often they are read, and how many at a time."""

    def __init__(self):
        self.reads, self.most = np.zeros(len(X), int), 0

    def __len__(self):
        return len(X)

    def __getitem__(self, rows):
        assert (np.diff(rows) > 0).all()
        self.reads[rows] += 1
        self.most = max(self.most, len(rows))
        return X[rows]


class Centers:
    """Class centers, the callback that refreshes them, and a sampler that uses them."""

    loss = losses.MultiSimilarityLoss

    def __init__(self):
        self.state = samplers.ClassCenters(LABELS, dim=3)
        self.sampler = samplers.HardClassSampler(classes_per_batch=3, examples_per_class=2, centers=self.state)

    def refresh(self, data=X, labels=LABELS, **options):
        return callbacks.RefreshCenters(data, labels, centers=self.state, **options)

    def assert_follows(self, model):
        embeddings = model.predict(X, verbose=0)
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
        expected = [embeddings[label == LABELS].mean(axis=0) for label in range(6)]
        np.testing.assert_allclose(self.state.centers, expected, rtol=1e-4, atol=1e-6)


class Pairs:
    """Mined pairs, the callback that refreshes them, and a sampler that uses them."""

    loss = losses.TripletLoss

    def __init__(self):
        self.state = samplers.MinedPairs(LABELS, positives=2, negatives=3)
        self.sampler = samplers.MinedSampler(anchors_per_batch=4, pairs=self.state)

    def refresh(self, data=X, labels=LABELS, **options):
        return callbacks.RefreshMinedPairs(data, labels, pairs=self.state, **options)

    def assert_follows(self, model):
        expected = hardest_pairs(model.predict(X, verbose=0), LABELS, positives=2, negatives=3)
        np.testing.assert_array_equal(self.state.positives, expected.positives)
        np.testing.assert_array_equal(self.state.negatives, expected.negatives)


ALL = {Centers: {"examples_per_class": 100}, Pairs: {}}  # options with which all examples are embedded


def make(loss=losses.TripletLoss):
    return linear(loss(), features=5, dim=3, optimizer=keras.optimizers.SGD(0.1))


def fit(model, refreshed, refresh, **options):
    """Train, and compare the state with the model at the start of every epoch."""
    watch = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: refreshed.assert_follows(model))
    batches = refreshed.sampler.batches(X, LABELS)
    callbacks = [refresh, watch]
    return model.fit(batches, steps_per_epoch=2, shuffle=False, verbose=0, callbacks=callbacks, **options).history


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_every_epoch_begins_with_the_state_of_the_model_also_in_a_run_that_resumes(kind):
    first, second, model = kind(), kind(), make(kind.loss)
    history = fit(model, first, first.refresh(batch_size=7, labels=LABELS[:, None], **ALL[kind]), epochs=2)
    before = [variable.numpy() for variable in model.trainable_variables]
    history["loss"] += fit(model, second, second.refresh(**ALL[kind]), epochs=4, initial_epoch=2)["loss"]
    assert np.isfinite(history["loss"]).all()
    assert len(history["loss"]) == 4
    assert int(first.state.refreshes) == int(second.state.refreshes) == 2
    assert np.ptp(before[0] - model.trainable_variables[0].numpy()) > 0


@pytest.mark.parametrize(("every", "times"), [(1, 4), (2, 2), (3, 2), (4, 1)])
@pytest.mark.parametrize("kind", ALL)
def test_examples_are_embedded_in_batches_when_training_begins_and_between_epochs(kind, every, times):
    refreshed, source = kind(), Source()
    refresh = refreshed.refresh(source, batch_size=16, every=every, **ALL[kind])
    refresh.set_model(make())
    refresh.set_params({"epochs": 4})
    refresh.on_train_begin()
    for epoch in range(4):
        refresh.on_epoch_end(epoch)
    assert int(refreshed.state.refreshes) == times
    assert set(source.reads) == {times}
    assert source.most == 16


def test_centers_need_only_a_few_examples_per_class():
    centers, source = Centers(), Source()
    centers.refresh(source, examples_per_class=4).refresh(make())
    assert set(source.reads) == {0, 1}
    np.testing.assert_array_equal(np.bincount(LABELS, weights=source.reads), np.minimum(COUNTS, 4))


def test_another_seed_embeds_other_examples():
    rows = [Centers().refresh(examples_per_class=4, seed=seed).rows for seed in (0, 0, 1)]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert set(rows[0]) != set(rows[2])


@pytest.mark.slow
def test_the_first_batch_is_drawn_after_the_first_refresh():
    centers, seen = Centers(), []

    def look(rows):
        seen.append(int(centers.state.refreshes))
        return X[rows], LABELS[rows]

    def load(rows, _):
        x, labels = tf.numpy_function(look, [rows], [tf.float32, tf.int64])
        return tf.ensure_shape(x, (6, 5)), tf.ensure_shape(labels, (6,))

    dataset = centers.sampler.batches(np.arange(len(LABELS)), LABELS).map(load)
    make().fit(dataset, steps_per_epoch=2, epochs=3, shuffle=False, verbose=0, callbacks=[centers.refresh()])
    assert seen[:6] == [1, 1, 2, 2, 3, 3]


def test_scann_finds_the_pairs_where_it_is_chosen():
    model, pairs, made = make(), Pairs(), []

    def scann(vectors, metric):
        made.append(search.Scann(vectors, metric=metric))
        return made[-1]

    pairs.refresh(index=scann).refresh(model)
    pairs.assert_follows(model)  # So few vectors are searched without approximation.
    assert [len(index) for index in made] == [len(X)]


OTHER_CLASSES = "Received labels of 5 classes, expected the 6 of <ClassCenters of 6 classes, dim=3>"
OTHER_PAIRS = "Received 38 labels, which are not the labels of pairs=<MinedPairs of 38 examples, "


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        *(
            (kind, options, message)
            for kind in ALL
            for options, message in [
                (dict(labels=LABELS[1:]), "Received 38 examples and 37 labels, expected one label per example"),
                (dict(labels=LABELS * 1.0), "Received labels of dtype float64"),
                (dict(labels=None), "Received data of type ndarray without labels"),
            ]
        ),
        (Centers, dict(labels=np.maximum(LABELS, 1)), OTHER_CLASSES),
        (Pairs, dict(index="annoy"), "Received index='annoy', expected 'exact', 'scann', 'faiss', 'lance', None, or"),
        (Pairs, dict(labels=LABELS[::-1]), OTHER_PAIRS),
    ],
)
def test_what_does_not_fit_is_refused_when_the_callback_is_made(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind().refresh(**options)
