"""Mining between branch and decision: the pairs and their loss against loops, training, state and errors."""

import itertools

import keras
import numpy as np
import pytest
from keras import layers

from tests.backend import BACKEND, XLA, numbers
from tfdml import losses, miners, models

LABELS = np.array([3, 3, 3, 0, 0, 0, 7, 7])
X = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")


def pair_model(**options):
    """A siamese model whose branch returns maps; the decision takes them one after the other, or concatenated."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    branch = keras.Model(inputs, layers.Reshape((1, 3, 2))(layers.Dense(6, activation="tanh")(inputs)))
    return models.PairModel(decision(**options), branch)


def decision(*, two_inputs=False, dropout=0.0):
    if two_inputs:
        f, g = keras.Input((1, 3, 2)), keras.Input((1, 3, 2))
        return keras.Model([f, g], layers.Dense(1)(layers.Flatten()(keras.ops.abs(f - g))))
    joined = keras.Input((1, 3, 4))
    x = layers.Dense(5, activation="tanh")(layers.Flatten()(joined))
    return keras.Model(joined, layers.Dense(1)(layers.Dropout(dropout)(x)))


def trainer(model, *, loss=None, eager=True, **options):
    mining = models.PairMining(model, **options)
    mining.compile(
        keras.optimizers.SGD(0.5),
        loss=loss or losses.PairLogisticLoss(),
        run_eagerly=eager and BACKEND == "tensorflow",
        jit_compile=XLA and not eager,
    )
    return mining


def hardest(model, *, positives, negatives, nearest_only=False):
    """Rows and labels of the hardest pairs, by loops, and their losses; `nearest_only` leaves what a miner keeps."""
    x = model.branches[0].predict(X, verbose=0).reshape(8, -1).astype("float64")
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    d = np.linalg.norm(x[:, None] - x[None], axis=-1)
    same = LABELS[:, None] == LABELS
    wanted = same.sum(axis=1) - 1
    near = [{j for j in np.argsort(np.where(same[i], np.inf, d[i]))[: wanted[i]]} for i in range(8)]
    pairs = list(itertools.combinations(range(8), 2))
    matches = sorted((pair for pair in pairs if same[pair]), key=lambda pair: -d[pair])
    others = [(i, j) for i, j in pairs if not same[i, j] and (not nearest_only or j in near[i] or i in near[j])]
    others = sorted(others, key=lambda pair: d[pair])
    rows = np.array(matches[:positives] + others[:negatives])
    y = np.where(same[rows[:, 0], rows[:, 1]], 1, -1)
    return rows, y, np.log1p(np.exp(-y * model.predict((X[rows[:, 0]], X[rows[:, 1]]), verbose=0)))


def loss_of(mining):
    return mining.evaluate(X, LABELS, batch_size=8, verbose=0)


@pytest.mark.backends
@pytest.mark.parametrize(
    ("two_inputs", "nearest_only", "eager"),
    [(False, False, True), (True, True, True), pytest.param(False, True, False, marks=pytest.mark.slow, id="xla")],
)
def test_the_loss_and_the_step_are_those_of_the_hardest_pairs(two_inputs, nearest_only, eager):
    model = pair_model(two_inputs=two_inputs)
    miner = miners.HardestNegatives() if nearest_only else None
    mining = trainer(model, miner=miner, pairs_per_batch=10, positive_fraction=0.4, eager=eager)
    rows, y, values = hardest(model, positives=4, negatives=6, nearest_only=nearest_only)
    assert len(rows) == 10
    assert loss_of(mining) == pytest.approx(values.mean(), rel=1e-5)

    twin = pair_model(two_inputs=two_inputs)
    twin.compile(keras.optimizers.SGD(0.5), loss=losses.PairLogisticLoss(), jit_compile=False)
    twin.fit((X[rows[:, 0]], X[rows[:, 1]]), y, batch_size=10, verbose=0)
    mining.fit(X, LABELS, batch_size=8, shuffle=False, verbose=0)
    for weights, others in zip(model.weights, twin.weights, strict=True):
        np.testing.assert_allclose(numbers(weights), numbers(others), rtol=1e-4, atol=1e-6)


def test_the_branch_sees_each_image_once_and_the_decision_the_mined_pairs():
    sizes = {"branch": [], "decision": []}

    class Recorder(layers.Layer):
        def call(self, x):
            sizes[self.name].append(x.shape[0])
            return x

    inputs, joined = keras.Input((4,)), keras.Input((4,))
    branch = keras.Model(inputs, layers.Dense(2)(Recorder(name="branch")(inputs)))
    head = keras.Model(joined, layers.Dense(1)(Recorder(name="decision")(joined)))
    mining = trainer(models.PairModel(head, branch), pairs_per_batch=6)
    for recorded in sizes.values():
        recorded.clear()
    mining.train_on_batch(X, LABELS)
    assert {name: set(recorded) - {None} for name, recorded in sizes.items()} == {"branch": {8}, "decision": {6}}


def doubled(pairs):
    return pairs.scale(positive=2.0)


def for_the_later_row(pairs):
    earlier = np.arange(8)[:, None] < np.arange(8)
    return pairs.drop(positive=earlier, negative=earlier)


@pytest.mark.parametrize(
    ("options", "positives", "negatives", "weight"),
    [
        ({"pairs_per_batch": 40}, 7, 20, 1),  # 7 of its 20 matching pairs, and 20 of 21 others
        ({"pairs_per_batch": 20, "positive_fraction": 1.0}, 7, 0, 1),
        ({"pairs_per_batch": 8, "miner": doubled}, 4, 4, 2),
        ({"pairs_per_batch": 8, "miner": for_the_later_row}, 4, 4, 1),  # kept for one of its two anchors
    ],
)
def test_the_mean_is_over_the_pairs_that_there_are_with_the_weights_of_the_miner(options, positives, negatives, weight):
    model = pair_model()
    rows, y, values = hardest(model, positives=positives, negatives=negatives)
    assert len(rows) == positives + negatives
    expected = np.average(values, weights=np.where(y > 0, weight, 1))
    assert loss_of(trainer(model, **options)) == pytest.approx(expected, rel=1e-5)


def test_a_batch_without_pairs_has_loss_0_and_a_diverged_branch_a_loss_that_is_nan():
    mining = trainer(pair_model(), pairs_per_batch=4, positive_fraction=1.0)
    assert mining.evaluate(X[:3], np.arange(3), batch_size=3, verbose=0) == 0
    assert np.isnan(mining.evaluate(np.full_like(X, np.nan), LABELS, batch_size=8, verbose=0))


def test_dropout_of_the_decision_acts_in_training_only():
    mining = trainer(pair_model(dropout=0.5), pairs_per_batch=10)
    assert len({loss_of(mining) for _ in range(3)}) == 1
    mining.optimizer.learning_rate = 0.0
    history = mining.fit(X, LABELS, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"]
    assert len(set(history)) == 3


def test_a_saved_training_resumes_with_the_state_of_its_miner(tmp_path):
    mining = trainer(pair_model(), miner=miners.DistanceWeighted(seed=3), pairs_per_batch=6)
    mining.fit(X, LABELS, batch_size=8, epochs=2, shuffle=False, verbose=0)
    mining.save(tmp_path / "mining.keras")
    resumed = keras.models.load_model(tmp_path / "mining.keras")
    loss_of(mining)  # leaves the state of the miner as it is
    values = [
        each.fit(X, LABELS, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
        for each in (mining, resumed)
    ]
    np.testing.assert_allclose(*values, rtol=1e-5)
    pair = (X[:4], X[4:])
    predicted = [each.pair_model.predict(pair, verbose=0) for each in (mining, resumed)]
    np.testing.assert_allclose(*predicted, rtol=1e-4)


def test_other_models_and_numbers_are_errors():
    two = pair_model(two_inputs=True)
    with pytest.raises(ValueError, match="a model of 0 branches, expected a siamese one"):
        models.PairMining(models.PairModel(keras.Sequential([keras.Input((4,)), layers.Dense(1)])))
    inputs = keras.Input((4,))
    branches = [keras.Model(inputs, layers.Dense(3)(inputs)) for _ in range(2)]
    pseudo = models.PairModel(keras.Sequential([layers.Dense(1)]), branches)
    with pytest.raises(ValueError, match="a model of 2 branches"):
        models.PairMining(pseudo)
    with pytest.raises(ValueError, match=r"expected a tfdml\.models\.PairModel"):
        models.PairMining(branches[0])
    maps = keras.Input((1, 3, 4))
    with pytest.raises(ValueError, match=r"a model of scores \(None, 1, 3\), expected one score per pair"):
        models.PairMining(models.PairModel(keras.Model(maps, layers.Dense(1)(maps)), two.branches[0]))
    for options in ({"pairs_per_batch": 0}, {"positive_fraction": 0.0}, {"miner": miners.hardest_negatives}):
        with pytest.raises(ValueError, match=next(iter(options))):
            models.PairMining(two, **options)
    with pytest.raises(ValueError, match="65 pairs of a kind from a batch of 8 rows, expected fewer"):
        trainer(two, pairs_per_batch=130).train_on_batch(X, LABELS)
    with pytest.raises(ValueError, match="weights of samples, expected none: a miner weights pairs"):
        trainer(two, pairs_per_batch=4).train_on_batch(X, LABELS, sample_weight=np.ones(8))
