"""What an import of tfdml brings: nothing of Keras before it is needed, and every class of a saved model afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = """
import keras, tfdml
registered = keras.saving.get_custom_objects()
found = {name for name, thing in registered.items() if thing.__module__.split(".")[1] in tfdml._SAVED}
assert {"tfdml>EmbeddingModel", "tfdml>ContrastiveLoss", "tfdml>Proxies"} <= found, found
print(len(found))
"""


def run(program):
    """The lines that a program prints, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


EXTRA = ("keras", "tensorflow", "jax", "torch", "sklearn", "matplotlib")


def test_an_import_brings_neither_keras_nor_a_backend():
    used = "tfdml.metrics, tfdml.search, tfdml.evaluation.compare"
    heavy = f"[name for name in {(*EXTRA, 'scipy')} if name in sys.modules]"
    assert run(f"import sys, tfdml\n{used}\nprint({heavy})") == ["[]"]


def test_embeddings_are_compared_where_keras_is_not_installed():
    missing = f"import sys\nsys.modules |= dict.fromkeys({EXTRA})\n"  # importing one is a ModuleNotFoundError
    lines = run(missing + (ROOT / "tests" / "programs" / "without_keras.py").read_text())
    (pair,) = [line for line in lines if line.startswith("near - far")]
    assert pair.split()[-3:] == ["<0.0001", "<0.0001", "near"]  # p, Holm's p, and the better model


@pytest.mark.slow
def test_saved_models_find_their_classes_in_every_order_of_imports():
    orders = ("import tfdml", "import keras, tfdml", "import tfdml.losses", "import tfdml\ntfdml.samplers")
    deep = "from tfdml.losses.pairwise import contrastive"
    assert len({run(order + NAMES)[-1] for order in (*orders, deep)}) == 1
