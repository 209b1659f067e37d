"""A cluster of this machine for all tests of the room."""

import os

import pytest

from tests.distributed.embedded import shards

os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


@pytest.fixture(scope="session")
def cluster():
    """Ray with two processors."""
    ray = pytest.importorskip("ray")
    ray.shutdown()  # of another test of this process
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2**27)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="session")
def embedded(cluster, tmp_path_factory):
    """Shards of 300 vectors, which no test changes."""
    return shards(tmp_path_factory.mktemp("embedded"))
