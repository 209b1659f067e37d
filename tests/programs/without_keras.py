"""tfdml without Keras: compares embeddings, measures and searches them, and each other part says what to install.

Runs where nothing but tfdml and its requirements is installed.
"""

import contextlib
import io
import tempfile

import numpy as np

import tfdml
from tfdml import cli

WITHOUT_KERAS = {"environment", "evaluate", "evaluation", "metrics", "search", "visualize"}


def main(folder):
    """Try everything; any failure ends the program."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(30), 4)
    centers = rng.normal(size=(30, 8))[labels]
    near, far = (centers + noise * rng.normal(size=centers.shape) for noise in (0.3, 3.0))
    comparison = tfdml.evaluation.compare({"near": near, "far": far}, labels)
    assert comparison.pairs[0].better == "near"
    assert tfdml.metrics.retrieval(near, labels, k=(1,))["recall@1"] > 0.9
    ids, _ = tfdml.search.Exact(near).search(near[:3], k=1)
    assert ids[:, 0].tolist() == [0, 1, 2]
    for name in set(tfdml.__all__) - WITHOUT_KERAS:
        assert "pip install tfdml[" in answer(name), name
    for name, vectors in (("near", near), ("far", far)):
        np.save(f"{folder}/{name}.npy", vectors)
    with open(f"{folder}/labels.csv", "w") as file:
        file.writelines(f"{label}\n" for label in ("label", *labels))
    files = [f"{folder}/{name}" for name in ("near.npy", "far.npy", "labels.csv")]
    assert cli.main(["compare", *files[:2], "--labels", files[2]]) == 0
    for words in (["zoo", "list"], ["zoo", "check"], ["clean", folder, "--out", f"{folder}/findings"]):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            assert cli.main(words) == 1
        assert f"tfdml {words[0]} needs keras: pip install tfdml[tensorflow]." in said.getvalue(), words


def answer(name):
    """What the import of a part of tfdml says."""
    try:
        getattr(tfdml, name)
    except ImportError as error:
        return str(error)
    return "It was imported without Keras."


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
