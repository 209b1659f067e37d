"""What every loss promises. Adding a loss is adding a row."""

from functools import partial

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, compiled, gradient, numbers
from tests.losses import loops
from tfdml import losses, miners, pairs

pytestmark = pytest.mark.backends

# (loss, the same by loops, the value for one class only, for no class twice)
ROWS = {
    "contrastive": (losses.ContrastiveLoss(), loops.contrastive),
    "contrastive with both margins": (
        losses.ContrastiveLoss(positive_margin=0.5, negative_margin=2.5),
        partial(loops.contrastive, positive_margin=0.5, negative_margin=2.5),
    ),
    "contrastive on squared distances": (
        losses.ContrastiveLoss(distance="squared", negative_margin=4.0),
        partial(loops.contrastive, distance="squared", negative_margin=4.0),
    ),
    "contrastive on cosine distances": (
        losses.ContrastiveLoss(distance="cosine"),
        partial(loops.contrastive, distance="cosine"),
    ),
    "contrastive on consecutive pairs": (
        losses.ContrastiveLoss(pairing=pairs.consecutive_pairs, negative_margin=3.0),
        partial(loops.contrastive_of_consecutive, negative_margin=3.0),
    ),
    "multi-similarity": (losses.MultiSimilarityLoss(), loops.multi_similarity),
    "multi-similarity with other settings": (
        losses.MultiSimilarityLoss(alpha=5.0, beta=20.0, threshold=-0.2),
        partial(loops.multi_similarity, alpha=5.0, beta=20.0, threshold=-0.2),
    ),
    "multi-similarity of valid triplets": (
        losses.MultiSimilarityLoss(miner=miners.ValidTriplets(margin=0.1)),
        loops.mined_multi_similarity,
    ),
    "batch hard": (losses.BatchHardTripletLoss(), loops.batch_hard_triplet),
    "batch hard on squared distances": (
        losses.BatchHardTripletLoss(distance="squared", margin=1.0),
        partial(loops.batch_hard_triplet, distance="squared", margin=1.0),
    ),
    "batch hard on cosine distances": (
        losses.BatchHardTripletLoss(distance="cosine"),
        partial(loops.batch_hard_triplet, distance="cosine"),
    ),
}
LOSSES = {name: row[0] for name, row in ROWS.items()}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
every_row = pytest.mark.parametrize(("loss", "by_loops"), ROWS.values(), ids=ROWS)

UNEVEN = {
    "three classes": [0, 0, 1, 1, 1, 7, 7, 7],
    "one of its own": [3, 3, 3, 3, 9, 5, 5, 6, 6, 6],
    "large": np.repeat(np.arange(9), [1, 2, 3, 4, 5, 6, 2, 1, 8]).tolist(),
}
every_batch = pytest.mark.parametrize("labels", UNEVEN.values(), ids=UNEVEN)

EMPTY = {
    "one class": ([4, 4, 4, 4], "random"),
    "no class twice": ([1, 2, 3, 4], "random"),
    "duplicates": ([0, 0, 1, 1], "duplicates"),
    "all embeddings equal": ([0, 0, 1, 1, 2, 2], "equal"),
    "zero embeddings": ([0, 0, 1, 1], "zero"),
    "tiny embeddings": ([0, 0, 1, 1], "tiny"),
    "huge embeddings": ([0, 0, 1, 1], "huge"),
}


def batch(labels, dim=5, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return np.array(labels), rng.standard_normal((len(labels), dim)).astype(dtype)


@every_row
@every_batch
def test_values_agree_with_loops_over_the_equation(loss, by_loops, labels):
    labels, x = batch(labels)
    labels, x = labels[: len(labels) // 2 * 2], x[: len(labels) // 2 * 2]
    np.testing.assert_allclose(
        numbers(loss.call(labels, x)), by_loops(labels, x.astype("float64")), rtol=1e-5, atol=2e-6
    )


@every_row
def test_gradients_agree_with_finite_differences_of_the_loops(loss, by_loops):
    labels, x = batch(UNEVEN["three classes"], dim=3, seed=3)
    ours, step = gradient(lambda v: loss.call(labels, v), x), 1e-6
    expected = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        shift = np.zeros(x.shape)
        shift[place] = step
        expected[place] = (by_loops(labels, x + shift).sum() - by_loops(labels, x - shift).sum()) / (2 * step)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


@every_loss
def test_values_follow_a_permutation_of_the_rows(loss):
    if loss.pairing is not pairs.all_pairs:
        order = np.array([4, 5, 0, 1, 6, 7, 2, 3])  # pairs move as a whole
        anchors = order[::2] // 2
    else:
        order = anchors = np.random.default_rng(1).permutation(8)
    labels, x = batch(UNEVEN["three classes"])
    moved = numbers(loss.call(labels[order], x[order]))
    np.testing.assert_allclose(moved, numbers(loss.call(labels, x))[anchors], rtol=1e-5, atol=1e-6)


@every_loss
def test_renaming_the_classes_changes_nothing(loss):
    labels, x = batch(UNEVEN["one of its own"])
    renamed = np.array([100, -5, 7, 2**31 - 1, 0, 13, 12, 11, 10, 9])[labels]
    np.testing.assert_array_equal(numbers(loss.call(renamed, x)), numbers(loss.call(labels, x)))


@every_loss
def test_compiled_by_xla_it_gives_the_same_values_and_gradients(loss):
    labels, x = batch(UNEVEN["large"])
    fast = compiled(lambda v: loss(labels, v))
    np.testing.assert_allclose(numbers(fast(x)), numbers(loss(labels, x)), rtol=1e-5)
    slope = compiled(lambda v: loss(labels, v))
    np.testing.assert_allclose(gradient(slope, x), gradient(lambda v: loss(labels, v), x), rtol=1e-4, atol=1e-6)


@every_loss
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_embeddings_are_scored_in_float32(loss, dtype):
    labels, x = batch(UNEVEN["three classes"])
    half = keras.ops.cast(x, dtype)
    values = loss.call(labels, half)
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    np.testing.assert_allclose(numbers(values), numbers(loss.call(labels, keras.ops.cast(half, "float32"))), rtol=1e-6)
    np.testing.assert_allclose(numbers(values), numbers(loss.call(labels, x)), rtol=5e-2, atol=5e-2)


@every_loss
@pytest.mark.parametrize(("labels", "form"), EMPTY.values(), ids=EMPTY)
def test_degenerate_batches_have_finite_values_and_gradients(loss, labels, form):
    labels, x = batch(labels)
    x = {
        "random": x,
        "duplicates": np.repeat(x[:2], 2, axis=0),
        "equal": np.repeat(x[:1], len(x), axis=0),
        "zero": np.zeros_like(x),
        "tiny": x / np.linalg.norm(x, axis=1, keepdims=True) * np.float32(1e-6),
        "huge": x / np.linalg.norm(x, axis=1, keepdims=True) * np.float32(1e6),
    }[form]
    assert np.isfinite(numbers(loss.call(labels, x))).all()
    assert np.isfinite(gradient(lambda v: loss.call(labels, v), x)).all()


@every_loss
def test_a_batch_without_pairs_costs_nothing(loss):
    if loss.pairing is pairs.all_pairs:
        labels, x = batch([5])
        assert numbers(loss(labels, x)) == 0
        np.testing.assert_array_equal(gradient(lambda v: loss(labels, v), x), np.zeros_like(x))


@every_loss
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_embedding_that_is_not_finite_is_not_hidden(loss, bad):
    labels, x = batch(UNEVEN["three classes"])
    x[0, 0] = bad
    assert not np.isfinite(numbers(loss(labels, x)))


@every_loss
def test_labels_may_stand_in_a_column(loss):
    labels, x = batch(UNEVEN["three classes"])
    np.testing.assert_array_equal(numbers(loss.call(labels[:, None], x)), numbers(loss.call(labels, x)))


@every_loss
def test_a_large_class_id_is_never_merged_with_its_neighbour_or_is_refused(loss):
    labels, x = batch(UNEVEN["three classes"])
    if BACKEND == "jax":
        with pytest.raises(ValueError, match="32-bit"):
            loss(labels + 2**62, x)
    else:
        np.testing.assert_array_equal(numbers(loss.call(labels + 2**62, x)), numbers(loss.call(labels, x)))
    np.testing.assert_array_equal(numbers(loss.call(labels + 2**24, x)), numbers(loss.call(labels, x)))


@every_loss
def test_keras_reduces_one_value_an_anchor(loss):
    labels, x = batch(UNEVEN["three classes"])
    values = numbers(loss.call(labels, x))
    anchors = len(x) if loss.pairing is pairs.all_pairs else len(x) // 2
    assert values.shape == (anchors,)
    np.testing.assert_allclose(numbers(loss(labels, x)), values.mean(), rtol=1e-6)
    weights = np.arange(anchors, dtype="float32")
    np.testing.assert_allclose(numbers(loss(labels, x, weights)), (values * weights).mean(), rtol=1e-6)
    total = type(loss).from_config({**loss.get_config(), "reduction": "sum"})
    np.testing.assert_allclose(numbers(total(labels, x)), values.sum(), rtol=1e-6)


@every_loss
def test_a_loss_comes_back_from_its_config(loss):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    labels, x = batch(UNEVEN["three classes"])
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()
    np.testing.assert_array_equal(numbers(again.call(labels, x)), numbers(loss.call(labels, x)))


@every_loss
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_fit_takes_a_short_last_batch_compiled_and_in_mixed_precision(loss, policy):
    labels, x = batch(np.arange(20) // 2)
    model = keras.Sequential([keras.layers.Input((5,)), keras.layers.Dense(4, dtype=policy)])
    model.compile("sgd", loss=loss, jit_compile=True)
    history = model.fit(x, labels, batch_size=8, epochs=1, verbose=0)  # 8, 8, 4
    assert np.isfinite(history.history["loss"]).all()


@every_loss
def test_float_labels_and_other_lengths_are_refused(loss):
    labels, x = batch(UNEVEN["three classes"])
    with pytest.raises(ValueError, match="labels of dtype float32, expected integer class ids"):
        loss(labels.astype("float32"), x)
    with pytest.raises(ValueError, match="6 labels and 8 embeddings"):
        loss(labels[:6], x)
    with pytest.raises(ValueError, match=r"embeddings of shape \(8, 5, 1\)"):
        loss(labels, x[:, :, None])
    with pytest.raises(ValueError, match=r"labels of shape \(8, 2\)"):
        loss(np.stack([labels, labels], axis=1), x)


WRONG = {
    "positive_margin=-1": lambda: losses.ContrastiveLoss(positive_margin=-1),
    "negative_margin=0.5": lambda: losses.ContrastiveLoss(positive_margin=1.0, negative_margin=0.5),
    "distance='manhattan'": lambda: losses.ContrastiveLoss(distance="manhattan"),
    "alpha=0": lambda: losses.MultiSimilarityLoss(alpha=0),
    "beta=-50": lambda: losses.MultiSimilarityLoss(beta=-50),
    "threshold=2": lambda: losses.MultiSimilarityLoss(threshold=2),
    "margin=-0.2": lambda: losses.BatchHardTripletLoss(margin=-0.2),
    "miner='hard'": lambda: losses.MultiSimilarityLoss(miner="hard"),
    "pairing=None": lambda: losses.MultiSimilarityLoss(pairing=None),
    "margin=nan": lambda: miners.ValidTriplets(margin=float("nan")),
}


@pytest.mark.parametrize(("received", "make"), WRONG.items(), ids=WRONG)
def test_a_wrong_option_is_named_where_it_is_given(received, make):
    with pytest.raises(ValueError, match=f"Received {received}.* expected "):
        make()


def test_a_weight_multiplies_its_pair_and_does_not_count_in_the_divisor():
    labels, x = batch([0, 0, 1])
    plain = pairs.all_pairs(labels, x)
    doubled = plain._replace(positive=2 * plain.positive)
    positives_only = plain._replace(negative=0 * plain.negative)
    added = numbers(losses.contrastive(doubled)) - numbers(losses.contrastive(plain))
    np.testing.assert_allclose(added, numbers(losses.contrastive(positives_only)) * [0.5, 0.5, 0], rtol=1e-5)
