"""Writers of an entry that are killed at random moments."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tfdml import zoo

# A process that starts a writer for each line that it reads, so that the package is imported once. The networks of an
# entry are written as files of random bytes, so that a writer is killed in all of its steps.
WRITERS = """
import os, sys
import keras
import numpy as np
from tfdml import datasets, models, zoo
from tfdml.evaluation.report.records import Measured
from tfdml.zoo import reproduction as evaluating
from tfdml.zoo import publishing as saving
from tfdml.zoo.card import Timing

inputs = keras.Input((4, 4, 1), dtype="uint8")
network = models.EmbeddingModel(inputs, keras.layers.Flatten()(inputs))
data = datasets.LabeledSet(images=np.zeros((2, 4, 4, 1), "uint8"), labels=np.zeros(2, int), class_names=("a",))
keys = ("recall@1", "map@r")

class Written:
    def save(self, path):
        path.write_bytes(os.urandom(100_000))

def saved_model(network, folder, preprocessing):
    folder.mkdir()
    for name in "abc":
        (folder / name).write_bytes(os.urandom(100_000))

saving.saved_model = saved_model
saving.measure = lambda *_: evaluating.Measurement({key: Measured(0.1, 0.0, 0.2) for key in keys}, 2, 2, 1, None, {})
saving.time_per_image = lambda _: Timing(0.1, 32, "")
bare, saving.bare = saving.bare, lambda model: Written()
Written.count_params = lambda self: 0

def save_for_ever(seed):
    print(os.getpid(), flush=True)
    while True:
        seed += 1
        zoo.save(network, "entry", data, summary="", recipe="", command="", seed=seed, license="", root=sys.argv[1])

for line in sys.stdin:
    writer = os.fork()
    if not writer:
        save_for_ever(int(line))
    print(os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]), flush=True)
"""


def killed(writers, root, seed, seconds):
    """The seed of the entry that a writer leaves which is killed so long after it started with a seed."""
    writers.stdin.write(f"{seed}\n")
    writers.stdin.flush()
    writer = int(writers.stdout.readline())
    time.sleep(seconds)
    os.kill(writer, signal.SIGKILL)
    assert int(writers.stdout.readline()) == -signal.SIGKILL
    if not (root / "entry").exists():
        return seed  # killed before the first entry was whole
    assert zoo.check("entry", root=root) == ()
    return zoo.card("entry", root=root).seed


@pytest.mark.nightly
def test_an_entry_is_whole_after_kill_9_at_30_random_moments_of_saving(tmp_path):
    seeds = [0]
    program = [sys.executable, "-c", WRITERS, str(tmp_path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writers:
        for seconds in np.random.default_rng(0).uniform(0, 0.2, size=30):
            seeds.append(killed(writers, tmp_path, seeds[-1], seconds))
        writers.stdin.close()
    assert seeds == sorted(seeds)
    assert len(set(seeds)) > 5
    assert {place.name for place in tmp_path.iterdir() if not place.name.startswith(".partial-")} == {
        "README.md",
        "entry",
    }
