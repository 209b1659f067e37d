"""Mined pairs are those of the model that trains."""

import keras
import numpy as np
import pytest

from tfdml import callbacks, losses, models, samplers, search
from tfdml.search.hard_pairs import hardest_pairs

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(6), [3, 12, 5, 9, 2, 7]))
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


def make():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(3)(inputs))
    model.compile(keras.optimizers.SGD(0.1), loss=losses.TripletLoss())
    return model


def mined_pairs(labels=LABELS):
    return samplers.MinedPairs(labels, positives=2, negatives=3)


def fit(model, *more, pairs, epochs=4, **options):
    sampler = samplers.MinedSampler(anchors_per_batch=4, pairs=pairs)
    dataset = sampler.batches(X, LABELS)
    return model.fit(
        dataset, steps_per_epoch=2, epochs=epochs, shuffle=False, verbose=0, callbacks=list(more), **options
    ).history


def assert_those_of(model, pairs):
    expected = hardest_pairs(model.predict(X, verbose=0), LABELS, positives=2, negatives=3)
    np.testing.assert_array_equal(pairs.positives, expected.positives)
    np.testing.assert_array_equal(pairs.negatives, expected.negatives)


def test_fit_trains_on_batches_of_the_pairs_that_it_refreshes():
    model, pairs, tables = make(), mined_pairs(), []
    look = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: tables.append(pairs.negatives.numpy()))
    history = fit(model, callbacks.RefreshMinedPairs(pairs, X, LABELS), look, pairs=pairs)
    assert np.isfinite(history["loss"]).all()
    assert int(pairs.refreshes) == 4
    assert (tables[0] != tables[-1]).any()


def test_pairs_are_those_of_the_embeddings_of_the_model_now():
    model, pairs = make(), mined_pairs()
    look = keras.callbacks.LambdaCallback(on_train_begin=lambda _: assert_those_of(model, pairs))
    refresh = callbacks.RefreshMinedPairs(pairs, X, LABELS[:, None], batch_size=7)
    fit(model, refresh, look, pairs=pairs)
    refresh.refresh(model)
    assert_those_of(model, pairs)


@pytest.mark.parametrize(("every", "times"), [(1, 4), (2, 2), (3, 2), (4, 1)])
def test_all_examples_are_embedded_in_batches_when_training_begins_and_between_epochs(every, times):
    pairs, source = mined_pairs(), Source()
    refresh = callbacks.RefreshMinedPairs(pairs, source, LABELS, batch_size=16, every=every)
    fit(make(), refresh, pairs=pairs)
    assert int(pairs.refreshes) == times
    assert set(source.reads) == {times}
    assert source.most == 16


def test_scann_finds_the_pairs_where_it_is_given():
    model, pairs, made = make(), mined_pairs(), []

    def scann(vectors, metric):
        made.append(search.Scann(vectors, metric=metric))
        return made[-1]

    callbacks.RefreshMinedPairs(pairs, X, LABELS, search=scann).refresh(model)
    assert_those_of(model, pairs)  # So few vectors are searched without approximation.
    assert [len(index) for index in made] == [len(X)]
    for named in ("scann", search.Scann):
        callbacks.RefreshMinedPairs(pairs, X, LABELS, search=named).refresh(model)
        assert_those_of(model, pairs)


def test_a_run_that_resumes_begins_with_the_pairs_of_its_model():
    model, pairs = make(), mined_pairs()
    fit(model, callbacks.RefreshMinedPairs(pairs, X, LABELS), pairs=pairs, epochs=2)
    again = mined_pairs()
    begin = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, _: assert_those_of(model, again) if epoch == 2 else None
    )
    refresh = callbacks.RefreshMinedPairs(again, X, LABELS)
    fit(model, refresh, begin, pairs=again, epochs=4, initial_epoch=2)
    assert int(again.refreshes) == 2


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (LABELS, dict(every=0), "Received every=0, expected a whole number of at least 1"),
        (LABELS, dict(batch_size=2.0), r"Received batch_size=2\.0"),
        (
            LABELS,
            dict(search="faiss"),
            "Received search='faiss', expected 'exact', 'scann', None, or a class such as",
        ),
        (LABELS[1:], {}, "Received 38 images and 37 labels, expected the same number"),
        (LABELS[::-1], {}, "Received 38 labels, which are not the labels of pairs=<MinedPairs of 38 examples, "),
        (LABELS * 1.0, {}, "Received labels of dtype float64"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_callback_is_made(labels, options, message):
    with pytest.raises(ValueError, match=message):
        callbacks.RefreshMinedPairs(mined_pairs(), X, labels, **options)
