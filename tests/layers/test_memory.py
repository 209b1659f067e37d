"""The memory: embeddings of recent batches as references."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, fast, gradient, numbers
from tests.layers.fitted import embedding_model
from tests.losses.rows import DEFAULTS, SYMMETRIC, WITHIN, lacking, law
from tfdml import analysis, layers, losses, miners, models

pytestmark = pytest.mark.backends

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((24, 5)).astype("float32")
LABELS = RANDOM.integers(0, 4, 24)
OLD, NEW = slice(0, 16), slice(16, 24)


def filled(size=16, **options):
    """A memory of the rows `OLD`."""
    memory = layers.Memory(size, warm_up=0, **options)
    memory.build((None,), X.shape)
    memory.update(LABELS[OLD], X[OLD])
    return memory


def trained(model, rows=slice(None), **options):
    model.fit(X[rows], LABELS[rows], batch_size=8, shuffle=False, verbose=0, **options)
    return model


def state(model):
    return [numbers(variable) for variable in model.variables]


@pytest.mark.parametrize(
    "make", [losses.ContrastiveLoss, losses.MultiSimilarityLoss, losses.NTXentLoss, losses.BatchHardTripletLoss]
)
def test_anchors_see_the_memory_as_they_see_rows_of_their_batch(make):
    expected = numbers(make().call(LABELS, X))[NEW]
    values = make(pairing=filled()).call(LABELS[NEW], X[NEW])
    np.testing.assert_allclose(numbers(values), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.everywhere
def test_no_gradient_reaches_remembered_rows_and_all_of_it_the_batch():
    def loss_beside(fixed, x):
        together = keras.ops.concatenate([fixed, x])
        return keras.ops.sum(losses.ContrastiveLoss().call(LABELS, together)[NEW])

    expected = gradient(lambda x: loss_beside(keras.ops.convert_to_tensor(X[OLD]), x), X[NEW])
    memory = filled()
    slopes = gradient(lambda x: losses.ContrastiveLoss(pairing=memory).call(LABELS[NEW], x), X[NEW])
    np.testing.assert_allclose(slopes, expected, rtol=1e-4, atol=1e-6)


@law(lacking(DEFAULTS, SYMMETRIC, WITHIN))
def test_every_loss_runs_on_a_memory(row):
    memory = filled()
    loss = row.with_options(pairing=memory)
    values = fast(lambda x: loss.call(LABELS[NEW], x))(keras.ops.convert_to_tensor(X[NEW]))
    assert values.shape == (8,)
    assert np.isfinite(numbers(values)).all()


@pytest.mark.parametrize("miner", [miners.ValidTriplets(), miners.HardestNegatives(), miners.DistanceWeighted()])
def test_miners_select_among_the_memory(miner):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    memory = layers.Memory(20, warm_up=0)  # four slots stay empty
    memory.build((None,), X.shape)
    memory.update(LABELS[OLD], unit[OLD])
    pairs = memory(LABELS[NEW], unit[NEW])
    mined = miner(pairs)
    assert mined.negative.shape == pairs.negative.shape == (8, 28)
    assert numbers(mined.negative)[:, 8:].sum() > 0


def test_an_empty_memory_gives_the_loss_of_the_batch():
    memory = layers.Memory(16, warm_up=0)
    values = losses.MultiSimilarityLoss(pairing=memory).call(LABELS[NEW], X[NEW])
    expected = losses.MultiSimilarityLoss().call(LABELS[NEW], X[NEW])
    np.testing.assert_allclose(numbers(values), numbers(expected), rtol=1e-6)


def test_the_oldest_rows_are_replaced_whatever_the_sizes_of_batches():
    memory, expected = layers.Memory(7), []
    memory.build((None,), X.shape)
    for first, last in [(0, 5), (5, 8), (8, 15), (15, 16), (16, 20)]:
        memory.update(LABELS[first:last, None], X[first:last])
        expected = [*expected, *range(first, last)][-7:]
        kept = numbers(memory.vectors)[numbers(memory.filled)]
        np.testing.assert_array_equal(kept[np.argsort(kept[:, 0])], X[expected][np.argsort(X[expected, 0])])
        by_value = dict(zip(X[:, 0], LABELS, strict=True))
        np.testing.assert_array_equal(
            numbers(memory.labels)[numbers(memory.filled)], [by_value[value] for value in kept[:, 0]]
        )


def test_the_warm_up_writes_and_does_not_compare():
    memory = layers.Memory(16, warm_up=2)
    memory.build((None,), X.shape)
    for compared in (False, False, True):
        pairs = memory(LABELS[NEW], X[NEW])
        assert numbers(pairs.positive + pairs.negative)[:, 8:].any() == compared
        memory.update(LABELS[:8], X[:8])


def test_rows_that_are_not_finite_are_not_remembered():
    memory = layers.Memory(8, warm_up=0)
    broken = X[NEW].copy()
    broken[3, 1] = np.nan
    memory(LABELS[NEW], X[NEW])
    memory.update(LABELS[NEW], broken)
    np.testing.assert_array_equal(numbers(memory.filled), np.arange(8) != 3)
    assert np.isfinite(numbers(losses.ContrastiveLoss(pairing=memory)(LABELS[:8], X[:8])))


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False] + [True] * XLA)
def test_fit_writes_every_batch_once_and_evaluation_writes_nothing(jit_compile):
    memory = layers.Memory(32, warm_up=1)
    model = embedding_model(losses.ContrastiveLoss(pairing=memory), features=5, jit_compile=jit_compile)
    trained(model)
    assert numbers(memory.filled).sum() == len(X)
    np.testing.assert_array_equal(numbers(memory.labels)[: len(X)], LABELS)
    before = state(model)
    model.evaluate(X, LABELS, batch_size=8, verbose=0)
    embeddings = model.predict(X[:8], verbose=0)
    analysis.active_pairs(model.loss, embeddings, LABELS[:8])
    analysis.pair_weights(model.loss, embeddings, LABELS[:8])
    for one, other in zip(state(model), before, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_embeddings_are_remembered_as_the_network_made_them():
    memory = layers.Memory(16)
    model = embedding_model(losses.ContrastiveLoss(pairing=memory), features=5)
    model.optimizer.learning_rate = 0.0
    trained(model, NEW)
    np.testing.assert_allclose(numbers(memory.vectors)[:8], model.predict(X[NEW], verbose=0), rtol=1e-6)


@pytest.mark.slow
def test_each_output_has_its_memory():
    inputs = keras.Input((5,))
    outputs = {"small": keras.layers.Dense(2)(inputs), "large": keras.layers.Dense(3)(inputs)}
    model = models.EmbeddingModel(inputs, outputs)
    both = {name: losses.ContrastiveLoss(pairing=layers.Memory(8)) for name in outputs}
    model.compile("sgd", loss=both)
    labels = {"small": LABELS[:8], "large": LABELS[8:16]}
    model.train_on_batch(X[:8], labels)
    for name, loss in both.items():
        np.testing.assert_array_equal(numbers(loss.pairing.labels), labels[name])
    assert [both[name].pairing.vectors.shape[1] for name in outputs] == [2, 3]


def test_large_ids_do_not_merge():
    ids = (2**31 - 2 if BACKEND == "jax" else 2**62) + np.arange(2)
    memory = layers.Memory(2, warm_up=0)
    memory(ids, X[:2])
    memory.update(ids, X[:2])
    np.testing.assert_array_equal(numbers(memory(ids, X[2:4]).positive)[:, 2:], np.eye(2))


def test_a_batch_larger_than_the_memory_is_refused():
    loss = losses.ContrastiveLoss(pairing=layers.Memory(4))
    with pytest.raises(ValueError, match="Received a batch of 8 rows for a memory of size=4, expected a memory"):
        loss(LABELS[:8], X[:8])
    with pytest.raises(ValueError, match="Received a batch of 8 rows for a memory of size=4"):
        trained(embedding_model(losses.ContrastiveLoss(pairing=layers.Memory(4)), features=5))
