"""`fit` on two devices of JAX: the loss is that of the whole batch."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests import FEW_OPTIMIZATIONS

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    command = [sys.executable, "-m", "tests.programs.data_parallel", str(tmp_path_factory.mktemp("devices"))]
    environment = {**os.environ, **FEW_OPTIMIZATIONS, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("run", ["", ", longer"])
def test_two_devices_train_as_one_with_the_pairs_between_them(found, run):
    one, two = found[f"one{run}"], found[f"two{run}"]
    assert found["devices"] == 2
    assert one["steps"] == two["steps"] == (12 if run else 6)
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-5)
    for ours, theirs in zip(two["weights"], one["weights"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_evaluation_takes_an_odd_number_of_rows(found):
    assert found["two"]["recall"][-1] == pytest.approx(found["by hand"]["recall@1"])
