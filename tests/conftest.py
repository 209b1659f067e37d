"""Fixtures of all tests.

Neither this file nor another `conftest.py` imports Keras at its top: pytest-xdist's main process runs no test.
"""

import os
import sys
from pathlib import Path

import pytest

LIMIT = 5 * 2**28  # bytes: a module of networks on JAX takes 1.4 GiB more


@pytest.fixture(autouse=True, scope="module")
def bounded_memory():
    """Drop what JAX has compiled after a module, once the process holds much memory. Modules share little of it."""
    yield
    if "jax" in sys.modules and resident() > LIMIT:
        sys.modules["jax"].clear_caches()


def resident():
    """Bytes of memory that this process holds; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0
