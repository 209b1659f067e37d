"""Two processes of `jax.distributed` with two devices each train as one device does, and resume after a failure."""

import importlib.metadata
import json
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests import FEW_OPTIMIZATIONS

pytestmark = pytest.mark.nightly
SECONDS = 300  # for one start of both processes, on a machine with much other work


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def started(folder, port, index, action):
    """One of the two processes, with its messages in a file."""
    command = [sys.executable, "-m", "tests.programs.processes", str(folder), str(port), str(index), action]
    environment = {**os.environ, **FEW_OPTIMIZATIONS, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"
    with (folder / f"{action}-{index}.txt").open("w") as messages:
        return subprocess.Popen(command, stdout=messages, stderr=messages, env=environment)


def run(folder, action):
    """The exit codes of both processes; another port if a third program took the first one in the meantime."""
    for _ in range(3):
        processes = [started(folder, port := free_port(), 0, action), started(folder, port, 1, action)]
        try:
            second = processes[1].wait(SECONDS)
            if action == "killed":
                processes[0].kill()  # it would wait until JAX notices the end of the other one
            codes = [processes[0].wait(SECONDS), second]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if "address already in use" not in (folder / f"{action}-0.txt").read_text().lower():
            return codes


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    assert run(folder, "killed")[1] == -signal.SIGKILL, (folder / "killed-1.txt").read_text()[-2000:]
    assert sorted(path.name for path in folder.glob("*.keras")) == ["state.keras"]
    assert run(folder, "resumed") == [0, 0], (folder / "resumed-0.txt").read_text()[-2000:]
    return [json.loads((folder / f"{index}.json").read_text()) for index in (0, 1)]


def gradient(run):
    before, after = np.array(run["kernels"])
    return (before - after) / 0.1


@pytest.mark.parametrize("index", [0, 1])
def test_two_processes_have_the_loss_the_gradient_and_the_weights_of_one_device(found, index):
    one, whole = found[0]["one"], found[index]["whole"]
    np.testing.assert_allclose(whole["loss"], one["loss"], rtol=1e-5)
    np.testing.assert_allclose(gradient(whole), gradient(one), rtol=1e-4, atol=1e-5)
    assert np.abs(gradient(one)).max() > 0.01
    for ours, theirs in zip(whole["weights"], one["weights"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_run_resumes_to_the_same_bits_after_a_process_was_killed(found):
    """Keras divides the batches of the resumed run; in the whole run, each process draws its part."""
    for process in found:
        assert process["first"] == 2  # the last saved step
        assert process["resumed"]["steps"] == process["whole"]["steps"] == 4
        assert process["resumed"]["loss"] == process["whole"]["loss"][1:]
        assert process["resumed"]["weights"] == process["whole"]["weights"] == found[0]["whole"]["weights"]


def test_proxies_over_the_devices_of_each_process_are_saved_whole(found):
    for process in found:
        assert process["proxies"] == [4, 4]  # of 8 classes
        for ours, theirs in zip(process["split"], found[0]["one"]["weights"], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_processes_that_differ_are_refused_in_both_before_the_first_batch(found):
    for process in found:
        assert process["versions"].startswith(f"Received tfdml {importlib.metadata.version('tfdml')}, ")
        assert " in process 0 and tfdml 0.0.9, tensorflow 1.2.3, " in process["versions"]
        assert process["epochs"] == (
            "Received model.steps=0, initial_epoch=0, epochs=3, steps_per_epoch=2 in process 0 and model.steps=0, "
            "initial_epoch=0, epochs=4, steps_per_epoch=2 in process 1 of 2, expected the same numbers. Let all "
            "processes load the same file, and call fit with the same arguments."
        )
