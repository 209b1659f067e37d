"""Losses under tf.distribute: the sum over replicas is the mean of their losses."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.losses.rows import DEFAULTS


@pytest.fixture(scope="module")
def on_replicas():
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.loss_replicas"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly
@pytest.mark.parametrize("name", DEFAULTS)
def test_two_replicas_sum_to_the_mean_of_their_losses_and_gradients(on_replicas, name):
    found = on_replicas[name]
    np.testing.assert_allclose(found["together"], found["mean of halves"], rtol=1e-5)
    np.testing.assert_allclose(found["slopes"], found["half the slopes"], rtol=1e-4, atol=1e-6)
