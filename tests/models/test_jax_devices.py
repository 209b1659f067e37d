"""Several devices of JAX: `fit` on the whole batch, and proxies for classes that one device cannot hold."""

import numpy as np
import pytest

from tests.programs import result_of

pytestmark = pytest.mark.nightly
MILLION, DIM, BATCH, DEVICES, FLOAT = 1_000_000, 128, 64, 8, 4


@pytest.fixture(scope="module")
def parallel(tmp_path_factory):
    return result_of("data_parallel", tmp_path_factory.mktemp("devices"), backend="jax", devices=2)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return result_of("split_proxies", tmp_path_factory.mktemp("proxies"), backend="jax", devices=DEVICES)


@pytest.mark.parametrize("run", ["", ", longer"])
def test_two_devices_train_as_one_with_the_pairs_between_them(parallel, run):
    one, two = parallel[f"one{run}"], parallel[f"two{run}"]
    assert parallel["devices"] == 2
    assert one["steps"] == two["steps"] == (12 if run else 6)
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-5)
    for ours, theirs in zip(two["weights"], one["weights"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_evaluation_takes_an_odd_number_of_rows(parallel):
    assert parallel["two"]["recall"][-1] == pytest.approx(parallel["by hand"]["recall@1"])


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
