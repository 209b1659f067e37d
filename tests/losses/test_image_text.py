"""Losses of pictures and texts: the published programs, repeated captions, learned numbers, errors."""

import numpy as np
import pytest

from tests.backend import gradient, numbers
from tfdml import losses, pairs

pytestmark = pytest.mark.backends

TOWERS = np.random.default_rng(0).standard_normal((5, 2, 4)).astype("float32")
UNIT = TOWERS.astype(float) / np.linalg.norm(TOWERS, axis=2, keepdims=True)
COSINES = UNIT[:, 0] @ UNIT[:, 1].T


def test_unique_labels_give_the_loss_of_the_pseudocode_of_clip():
    logits = COSINES / 0.07

    def cross_entropy(logits):
        return np.mean([np.logaddexp.reduce(row) - row[i] for i, row in enumerate(logits)])

    expected = (cross_entropy(logits) + cross_entropy(logits.T)) / 2
    np.testing.assert_allclose(numbers(losses.CLIPLoss()(np.arange(5), TOWERS)), expected, rtol=1e-5)


def test_unique_labels_give_the_loss_of_the_pseudocode_of_siglip():
    logits = 10 * COSINES - 10
    z = 2 * np.eye(5) - np.ones((5, 5))
    expected = -np.sum(np.log(1 / (1 + np.exp(-z * logits)))) / 5
    np.testing.assert_allclose(numbers(losses.SigmoidLoss()(np.arange(5), TOWERS)), expected, rtol=1e-5)


@pytest.mark.parametrize("make", [losses.CLIPLoss, losses.SigmoidLoss])
def test_a_repeated_caption_is_no_negative_of_its_images(make):
    towers = TOWERS.copy()
    towers[1, 1] = towers[0, 1]  # the same caption
    towers[1, 0] = towers[0, 0] + 0.1
    apart, together = (
        gradient(lambda v, y=y: make()(np.array(y), v), towers) for y in ([0, 1, 2, 3, 4], [0, 0, 2, 3, 4])
    )
    caption = UNIT[0, 1]
    pulls = [-slope[1, 0] @ caption for slope in (apart, together)]  # along the caption that image 1 shares
    assert pulls[1] > 0
    assert pulls[1] > pulls[0]


def test_both_directions_of_clip_count():
    swapped = losses.CLIPLoss(temperature=0.3).call(np.arange(5), TOWERS[:, ::-1])
    np.testing.assert_allclose(swapped, losses.CLIPLoss(temperature=0.3).call(np.arange(5), TOWERS), rtol=1e-5)
    one, other = (losses.NTXentLoss(temperature=0.3, pairing=pairs.two_towers) for _ in range(2))
    expected = numbers(one.call(np.arange(5), TOWERS)) + numbers(other.call(np.arange(5), TOWERS[:, ::-1]))
    np.testing.assert_allclose(swapped, expected / 2, rtol=1e-5)


def test_numbers_of_anchors_and_references_that_differ_are_refused():
    uneven = pairs.pairs_with(np.arange(5), TOWERS[:, 0], np.arange(3), TOWERS[:3, 1])
    with pytest.raises(ValueError, match="Received 5 anchors and 3 references, expected as many of both"):
        losses.CLIPLoss().on_pairs(uneven)
    assert losses.SigmoidLoss().on_pairs(uneven).shape == (5,)
