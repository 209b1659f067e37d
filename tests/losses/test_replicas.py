"""Losses under tf.distribute: the sum over replicas is the mean of their losses."""

import numpy as np
import pytest

from tests.losses.rows import DEFAULTS
from tests.programs import result_of


@pytest.fixture(scope="module")
def on_replicas():
    return result_of("loss_replicas")


@pytest.mark.nightly
@pytest.mark.parametrize("name", DEFAULTS)
def test_two_replicas_sum_to_the_mean_of_their_losses_and_gradients(on_replicas, name):
    found = on_replicas[name]
    np.testing.assert_allclose(found["together"], found["mean of halves"], rtol=1e-5)
    np.testing.assert_allclose(found["slopes"], found["half the slopes"], rtol=1e-4, atol=1e-6)
