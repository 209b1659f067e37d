"""A loss of one's own: a function of pairs in `PairLoss`."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.backend import numbers
from tests.losses.rows import UNEVEN, batch
from tfdml import losses, miners, pairs

pytestmark = pytest.mark.backends

LABELS, X = batch(UNEVEN["three classes"])


@keras.saving.register_keras_serializable("tests")
def pull_and_push(pairs_of_batch, *, margin, push=1.0):
    """Positives are pulled, negatives pushed beyond a margin."""
    d = pairs.euclidean(pairs_of_batch)
    terms = pairs_of_batch.positive * d + push * pairs_of_batch.negative * ops.maximum(margin - d, 0.0)
    return ops.sum(terms, axis=1)


def own_loss(negative_margin=1.0, **options):
    miner = miners.PairMargin(positive_margin=0.2, negative_margin=negative_margin)
    return losses.PairLoss(pull_and_push, margin=1.5, miner=miner, **options)


def test_a_loss_of_ones_own_is_the_function_of_the_mined_pairs():
    mined = miners.PairMargin(positive_margin=0.2, negative_margin=1.0)(pairs.all_pairs(LABELS, X))
    expected = numbers(pull_and_push(mined, margin=1.5, push=0.5))
    np.testing.assert_allclose(numbers(own_loss(push=0.5).call(LABELS, X)), expected, rtol=1e-6)
    np.testing.assert_allclose(numbers(own_loss(push=0.5)(LABELS, X)), expected.mean(), rtol=1e-6)
    assert own_loss().name == "pull_and_push"


def test_a_loss_of_ones_own_refuses_settings_that_its_function_does_not_have():
    with pytest.raises(TypeError, match=r"Received marign=0.3 for PairLoss, expected options among .*, margin, push\."):
        losses.PairLoss(pull_and_push, marign=0.3)
    with pytest.raises(ValueError, match=r"Received function='hinge', expected a function of Pairs"):
        losses.PairLoss("hinge")


@pytest.mark.parametrize(
    ("function", "received"),
    [
        (lambda pairs: pairs.positive, r"\(8, 8\)"),
        (lambda pairs: keras.ops.sum(pairs.positive), r"\(\)"),
        (lambda pairs: None, "None"),
    ],
)
def test_a_function_that_does_not_return_one_value_per_anchor_is_refused(function, received):
    labels, x = np.arange(8) // 2, np.ones((8, 3), "float32")
    message = rf"values of shape {received} from <lambda>, expected \(8,\), one value per anchor"
    with pytest.raises(ValueError, match=message):
        losses.PairLoss(function)(labels, x)


def test_a_function_without_a_name_trains():
    loss = losses.PairLoss(lambda pairs_of_batch: pull_and_push(pairs_of_batch, margin=1.0))
    assert loss.name == "pair_loss"


def test_weights_of_rows_are_refused_where_a_pair_of_rows_is_one_anchor():
    loss = losses.ContrastiveLoss(pairing=pairs.consecutive_pairs)
    with pytest.raises(ValueError, match=r"Received 8 sample weights .* for 4 anchors"):
        loss(LABELS, X, np.ones(8, "float32"))


@pytest.mark.parametrize("distance", ["euclidean", "squared", "cosine"])
def test_copies_of_a_row_are_no_active_pair(distance):
    x = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
    x[1] = x[0]
    labels = np.array([0, 0, 1, 1, 2, 2])
    loss = losses.ContrastiveLoss(distance=distance, negative_margin=1e-3, normalize="active")
    d = numbers(pairs.euclidean(pairs.all_pairs(labels, x)))
    if distance == "cosine":
        d = 1 - numbers(pairs.cosine(pairs.all_pairs(labels, x)))
    d = d**2 if distance == "squared" else d
    np.testing.assert_allclose(float(loss(labels, x)), (d[2, 3] ** 2 + d[4, 5] ** 2) / 2, rtol=1e-4)
