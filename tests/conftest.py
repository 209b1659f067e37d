"""Fixtures of all tests.

Neither this file nor another `conftest.py` imports Keras at its top: pytest-xdist's main process runs no test.
"""

import ctypes
import gc
import os
import sys
from pathlib import Path

import pytest

LIMIT = 2**30  # bytes that a process may hold before anything is dropped
STEP = 2**27  # bytes that it grows by before more is dropped: a drop takes time, and code is compiled again after it

next_drop = LIMIT


@pytest.fixture(autouse=True)
def bounded_memory():
    """Drop what JAX has compiled after a test, once the process holds much memory."""
    global next_drop
    yield
    if os.environ.get("KERAS_BACKEND") == "jax" and "jax" in sys.modules and resident() > next_drop:
        gc.collect()  # models, which hold what was compiled for them
        sys.modules["jax"].clear_caches()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)  # freed memory goes back to the system
        next_drop = max(LIMIT, resident() + STEP)


def resident():
    """Bytes of memory that this process holds; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0
