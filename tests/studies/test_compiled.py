"""Training in one compiled loop: the weights of `fit`, with and without a state, and files of row numbers."""

import functools

import keras
import numpy as np
import pytest

import tfdml
from studies import compiled
from studies.leaderboard import costs
from tfdml import layers, losses, miners

pytestmark = pytest.mark.backends

LOSSES = {
    "no state": losses.MultiSimilarityLoss,
    "proxies": functools.partial(losses.ProxyNCALoss, classes=20),
    "random miner": lambda: losses.ContrastiveLoss(miner=miners.BalancedPairs(seed=3)),
    "memory": lambda: losses.ContrastiveLoss(pairing=layers.Memory(64, warm_up=4)),
}
X = np.random.default_rng(0).normal(size=(200, 16)).astype("float32")
LABELS = (np.arange(200) // 10).astype("int32")
STEPS = 12


def rows_of(seed):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(200)[:16] for _ in range(STEPS)]).astype("int32")


def compiled_model(loss, seed):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((16,))
    x = keras.layers.Dropout(0.1)(keras.layers.Dense(8, activation="relu")(inputs))
    model = tfdml.models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(keras.layers.Dense(4)(x)))
    rate = keras.optimizers.schedules.CosineDecay(0.0, STEPS, warmup_target=0.01, warmup_steps=2)
    model.compile(
        keras.optimizers.Adam(rate),
        loss=loss,
        learning_rate_multipliers={layer.name: 3.0 for layer in loss.layers},
        jit_compile=keras.backend.backend() == "jax",
    )
    return model


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOSSES if keras.backend.backend() == "jax" else ["proxies"])
def test_two_seeds_at_once_have_the_weights_of_two_calls_of_fit(kind):
    rows = np.stack([rows_of(seed) for seed in (0, 1)])
    at_once = [compiled_model(LOSSES[kind](), seed) for seed in (0, 1)]
    compiled.fit(at_once, X, LABELS, rows, epochs=2)
    for model, seed in zip(at_once, (0, 1), strict=True):
        alone = compiled_model(LOSSES[kind](), seed)
        alone.fit(((X[batch], LABELS[batch]) for batch in rows[seed]), steps_per_epoch=STEPS, shuffle=False, verbose=0)
        assert model.steps == alone.steps == STEPS
        for one, other in zip(model.weights, alone.weights, strict=True):
            np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (one, other)), rtol=1e-5, atol=1e-6)


def test_the_cost_of_a_step_is_measured_by_the_compiler_of_jax(monkeypatch):
    monkeypatch.setattr(costs, "REPEATS", 1)
    if keras.backend.backend() != "jax":
        with pytest.raises(ValueError, match="expected jax, whose compiler says"):
            costs.rows()
        return
    for loss in ("multi-similarity", "ProxyNCA", "n-pairs"):
        cost = costs.cost(loss)
        assert cost["ms"] > 0
        assert 128 * 64 * 4 / 2**20 < cost["mib"] < 10  # at least one copy of the embeddings, and no cube of the batch
