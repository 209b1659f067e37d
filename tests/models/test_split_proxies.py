"""Proxies divided over the devices of JAX, for classes that one device cannot hold."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests import FEW_OPTIMIZATIONS

pytestmark = pytest.mark.nightly
MILLION, DIM, BATCH, DEVICES, FLOAT = 1_000_000, 128, 64, 8, 4


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    command = [sys.executable, "-m", "tests.programs.split_proxies", str(tmp_path_factory.mktemp("proxies"))]
    environment = {**os.environ, **FEW_OPTIMIZATIONS, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] += f" --xla_force_host_platform_device_count={DEVICES}"
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_divided_proxies_train_and_are_saved_as_whole_ones(found):
    one, eight = found["one"], found["eight"]
    assert (one["devices"], eight["devices"]) == (1, DEVICES)
    np.testing.assert_allclose(eight["loss"], one["loss"], rtol=1e-5)
    for ours, theirs in zip(eight["weights"], one["weights"], strict=True):  # the momentum sums gradients
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_device_needs_an_eighth_of_a_million_classes(found):
    """The proxies, their gradient, normalized proxies and their gradient, and some matrices of pairs, by shard."""
    million = found["million"]
    shard, pairs = MILLION // DEVICES * DIM * FLOAT, MILLION // DEVICES * BATCH * FLOAT
    assert million["shard"] == [MILLION // DEVICES, DIM]
    assert shard <= million["arguments"] < 1.05 * shard
    assert million["temporaries"] < 3 * shard + 4 * pairs
    assert million["arguments"] + million["temporaries"] < MILLION * DIM * FLOAT  # of the proxies alone


@pytest.mark.parametrize("run", ["million", "squared"])
def test_no_device_gathers_proxies_or_pairs_of_others(found, run):
    assert found[run]["gathers"] == 0
