"""Programs that tests start in processes of their own, on other backends and with several devices."""

import json
import os
import subprocess
import sys

from tests import FEW_OPTIMIZATIONS


def started(program, *arguments, backend="tensorflow", devices=1, **environment):
    """A finished process of a program of this folder, on devices of the CPU."""
    command = [sys.executable, "-m", f"tests.programs.{program}", *map(str, arguments)]
    variables = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    if devices > 1:
        variables |= FEW_OPTIMIZATIONS
        variables["XLA_FLAGS"] += f" --xla_force_host_platform_device_count={devices}"
    return subprocess.run(command, capture_output=True, text=True, env=variables | environment, check=False)


def result_of(program, *arguments, **options):
    """The JSON in the last line that a program prints; the options are those of `started`."""
    done = started(program, *arguments, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
