"""What every loss promises under XLA and in `fit`: in a file of its own, as compiled code stays in a process's memory.

On JAX, all losses of `test_contract.py` are compiled by XLA.
"""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, compiled, numbers
from tests.losses.rows import BRANCHES, DEFAULTS, FAMILIES, UNEVEN, batch, each, evaluated
from tfdml import losses, miners, models

# Sums over pairs, triplets that are chosen, weights of the batch, logarithms of sums, histograms, and proxies.
SOME = ["contrastive", "triplet, semi-hard negatives", "robust, KL", "NT-Xent", "histogram", "ArcFace"]


@each(BRANCHES, test=SOME, ci=DEFAULTS)
def test_compiled_by_xla_it_gives_the_same_values_and_gradients(row):
    labels, x = batch(UNEVEN["three classes"])
    for ours, expected in zip(evaluated(row, labels, x, way=compiled), evaluated(row, labels, x), strict=True):
        largest = np.abs(expected).max()  # entries that are sums of large terms have their rounding errors
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=2e-6 * max(1.0, largest))


@each(DEFAULTS, test=SOME)
def test_compiled_by_xla_loss_and_gradient_are_finite_together_or_both_are_not(row):
    labels, x = batch(UNEVEN["three classes"])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for norm in (1e15, 1e19, 1e25, 1e38, np.inf, np.nan):
        value, slope, _ = evaluated(row, labels, unit * np.float32(norm), way=compiled)
        assert np.isfinite(slope).all() == np.isfinite(value), norm
        assert np.isfinite(value) == (norm < 1e16), norm  # beyond 4e18 squares of distances overflow


@pytest.mark.backends
@each(DEFAULTS, test={}, ci=FAMILIES)
def test_fit_takes_a_short_last_batch_compiled_and_in_mixed_precision(row):
    rows = 12 if BACKEND == "tensorflow" else 8  # JAX would compile the last 4 as it compiles any batch
    labels, x = batch(np.arange(rows) // 2)
    inputs, build = keras.Input((5,)), models.EmbeddingModel if row.loss.layers else keras.Model
    model = build(inputs, keras.layers.Dense(5, dtype="mixed_bfloat16")(inputs))
    model.compile("sgd", loss=type(row.loss).from_config(row.loss.get_config()), jit_compile=XLA)
    history = model.fit(x, labels, batch_size=8, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


WAYS = {"eager": {"run_eagerly": True}, "graph": {"jit_compile": False}, "xla": {"jit_compile": XLA}}


@pytest.mark.backends
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_fit_takes_batches_of_one_row_which_change_nothing(way):
    inputs = keras.Input((5,))
    model = keras.Model(inputs, keras.layers.Dense(4)(inputs))
    model.compile("sgd", loss=losses.TripletLoss(negatives=miners.semi_hard_negatives), **way)
    before = [numbers(weight) for weight in model.trainable_variables]
    labels, x = batch([0, 0, 1])
    assert model.fit(x, labels, batch_size=1, verbose=0).history["loss"] == [0.0]
    for weight, expected in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(numbers(weight), expected)
