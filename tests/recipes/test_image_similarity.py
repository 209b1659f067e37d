"""The example in the form of keras.io, on images that have the form of CIFAR-10."""

import keras
import numpy as np

from tests.pages import short
from tests.test_documents import ROOT

PATH = ROOT / "recipes" / "image_similarity.py"


def cifar10():
    """Images `(n, 32, 32, 3)` in a color of their class, and labels `(n, 1)`."""
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 20)[:, None]
    colors = draw.integers(0, 200, (10, 1, 1, 3))
    images = np.clip(colors[labels[:, 0]] + draw.integers(0, 40, (200, 32, 32, 3)), 0, 255).astype(np.uint8)
    return (images, labels), (images, labels)


def test_it_trains_on_seven_classes_and_searches_in_three_others(monkeypatch, capsys):
    monkeypatch.setattr(keras.datasets.cifar10, "load_data", cifar10)
    names = {}
    exec(compile(short(PATH.read_text()), str(PATH), "exec"), names)
    assert sorted(set(names["test_labels"])) == [1, 3, 8]
    assert not set(names["labels"]) & {1, 3, 8}
    printed = capsys.readouterr().out
    assert "after training: Recall@1" in printed
    assert printed.count("automobile: ") == 5


def test_it_has_the_form_of_an_example_of_keras():
    text = PATH.read_text()
    header = text.split('"""')[1].split("\n")
    fields = [line.split(":")[0] for line in header if line]
    assert fields == ["Title", "Author", "Date created", "Last modified", "Description", "Accelerator"]
    assert len(text.splitlines()) < 300
    assert "tensorflow" not in text.replace("TensorFlow", "").lower()
