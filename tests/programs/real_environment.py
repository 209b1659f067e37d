"""What pages say of JAX and PyTorch, in an environment without TensorFlow: `make backends` starts it.

It runs the training of the README, the first programs of the pages of its backend, and `tfdml train`.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
from PIL import Image

import tfdml
from tests.pages import blocks, programs, short

ROOT = Path(__file__).parents[2]
PAGES = {"jax": ("jax-and-gpus",), "torch": ("pytorch", "jax-and-gpus")}


def write_photos(folder):
    """24 classes of 5 small images, each with a tint of its own."""
    for row, label in enumerate(np.repeat(np.arange(24), 5)):
        random = np.random.default_rng(row)
        pixels = random.integers(0, 40, (40, 48, 3)) + random.integers(0, 50, 3) + 7 * label
        path = folder / f"class-{label:02}" / f"{row}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)


def run(*arguments):
    """Run a program of Python in the current folder."""
    subprocess.run([sys.executable, *arguments], check=True)


def require_equal_answers_in_onnx(folder):
    """ONNX Runtime answers as Keras: embeddings of a network with layers of many kinds, and scores of pairs."""
    import onnxruntime  # JAX exports nothing

    draw, layers = np.random.default_rng(0), keras.layers
    images = draw.integers(0, 256, (5, 16, 12, 3), np.uint8)
    inputs = keras.Input(images.shape[1:], dtype="uint8")
    x = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(layers.Rescaling(1 / 255)(inputs))
    x = layers.Flatten()(layers.MaxPooling2D()(layers.BatchNormalization()(x)))
    model = tfdml.models.EmbeddingModel(inputs, layers.UnitNormalization()(layers.Dense(6)(x)))
    tfdml.export.onnx(model, folder / "model", threshold=0.5, class_names=["ant"])
    session = onnxruntime.InferenceSession(folder / "model" / "model.onnx")
    assert {"threshold.json", "class_names.json"} <= set(session.get_modelmeta().custom_metadata_map)
    for count in (5, 1, 0):
        (found,) = session.run(["embedding"], {"images": images[:count]})
        expected = model.predict_on_batch(images[:count]) if count else np.empty((0, 6))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    pairs = tfdml.models.PairModel(keras.Sequential([layers.Dense(1)]), model)
    tfdml.export.onnx(pairs, folder / "pairs")
    session = onnxruntime.InferenceSession(folder / "pairs" / "model.onnx")
    (found,) = session.run(["score"], {"a": images, "b": images[::-1].copy()})
    np.testing.assert_allclose(found, pairs.predict_on_batch([images, images[::-1].copy()]), atol=1e-5)


def main():
    """Raises the first error."""
    assert find_spec("tensorflow") is None
    training = next(block for block in blocks(ROOT / "README.md") if "model.fit(" in block)
    whole = tfdml.datasets.glyphs
    tfdml.datasets.glyphs = lambda **options: [part.select_classes(range(40)) for part in whole(**options)]
    exec(short(training), {})
    for page in PAGES[keras.backend.backend()]:
        name, content = programs(ROOT / "docs" / f"{page}.md")[0]
        Path(name).write_text(short(content))
        run(name)
    if keras.backend.backend() == "torch":
        require_equal_answers_in_onnx(Path("exported"))
    write_photos(Path("photos"))
    run("-m", "tfdml", "train", "photos", "--out", "trial", "--quick")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
