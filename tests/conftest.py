"""The group and the tier of every test, by which `tests/budgets.toml` selects it, and fixtures of all tests.

Neither this file nor another `conftest.py` imports Keras at its top: pytest-xdist's main process runs no test.
"""

import ctypes
import gc
import os
import re
import sys
from pathlib import Path

import pytest

# The group of a test is that of its first folder or file in `tests`; `rooms` has all that are not named here.
# What TensorFlow and XLA have compiled stays in the memory of a process, so that one for all tests would be too large.
GROUPS = {
    "losses": {"losses"},
    "core": {"_core", "importance", "layers", "miners", "pairs"},
    "fitting": {"addons", "analysis", "callbacks", "embedding", "models", "networks", "samplers", "training"},
    "products": {"cli", "export", "serving", "zoo"},
    "distributed": {"distributed"},
    "documents": {"test_documents.py"},
    "examples": {"test_examples.py"},
    "programs": {"benchmarks", "recipes", "studies", "test_notebooks.py"},
}
REST = "rooms"
# The tier of a test is the first command that runs it: `make test`, `.ci/run` or `make test-all`.
TIERS = {"test": "runs in make test", "ci": "is slow: .ci/run runs it", "all": "is nightly: only make test-all runs it"}

LIMIT = 2**30  # bytes that a process may hold before anything is dropped
STEP = 2**27  # bytes that it grows by before more is dropped: a drop takes time, and code is compiled again after it

next_drop = LIMIT


def group_of(path):
    """The group of a file or folder of tests; None of `tests` itself."""
    names = path.relative_to(Path(__file__).parent).parts
    return next((group for group, members in GROUPS.items() if {*names[:1]} & members), REST) if names else None


def tier_of(item):
    """The tier of a test by its own marks; None of a test for the browser."""
    marks = {mark.name for mark in item.iter_markers()}
    if "browser" in marks:
        return None
    return "all" if "nightly" in marks else "ci" if "slow" in marks else "test"


def pytest_configure(config):
    """Make the groups and tiers known to `-m`."""
    for group in (*GROUPS, REST):
        config.addinivalue_line("markers", f"{group}: is in this group of folders")
    for tier, meaning in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {meaning}")


def pytest_ignore_collect(collection_path, config):
    """A folder is not imported if `-m` names groups, and not its own; a group is never named after `not`."""
    named = {*GROUPS, REST}.intersection(re.findall(r"\w+", config.option.markexpr))
    return True if named and group_of(collection_path) not in {None, *named} else None


def pytest_itemcollected(item):
    """Mark a test with its group and its tier."""
    for mark in filter(None, (group_of(item.path), tier_of(item))):
        item.add_marker(mark)


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
