"""Hardware and package versions, for reporting results."""

import importlib.metadata
import os
import platform
import sys
from pathlib import Path


def environment(*packages: str) -> dict[str, str]:
    """Hardware and package versions, to report with every published number.

    Example:

        >>> facts = tfdml.environment()
        >>> sorted(facts)
        ['hardware', 'versions']
        >>> facts["versions"]
        '... keras 3... numpy ...'

    Args:
        packages: further installed distributions, beside numpy and, if they are installed, tensorflow and keras.

    Returns:
        dict of two strings: `hardware` (processor, cores available to this process, memory) and `versions`.
    """
    names = dict.fromkeys(["tfdml", *filter(_is_there, ("tensorflow", "keras")), "numpy", *packages])
    versions = [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)]
    return {"hardware": _hardware(), "versions": ", ".join(versions)}


def _is_there(name):
    return sys.modules.get(name) is not None or any(importlib.metadata.distributions(name=name))


def version(name: str) -> str:
    """The version that an imported package states, else the version of the installed distribution of this name.

    A nightly build has a distribution of another name, and a package that is read from its sources has none.
    """
    stated = getattr(sys.modules.get(name), "__version__", None)
    return stated if isinstance(stated, str) else importlib.metadata.version(name)


def _hardware():
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cpu}, {cores} cores, {memory:.0f} GiB"
