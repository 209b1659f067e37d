"""tfdml on JAX or PyTorch where TensorFlow is not installed: reads a folder of images, trains, measures and searches.

It hides TensorFlow, and prints what came of each call that needs it.
"""

import json
import sys
from pathlib import Path


class WithoutTensorFlow:
    """A finder of modules that does not find TensorFlow."""

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        """The module, if it is not of TensorFlow."""
        return None if name.partition(".")[0] == "tensorflow" else self.finder.find_spec(name, path, target)


sys.meta_path[:] = map(WithoutTensorFlow, sys.meta_path)

import keras  # noqa: E402
import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

import tfdml  # noqa: E402

SAMPLER = tfdml.samplers.GroupSampler(classes_per_batch=2, examples_per_class=3, seed=4)
CROP = tfdml.datasets.compose(tfdml.datasets.RandomCrop(10), tfdml.datasets.RandomResizedCrop(8))
SUFFIXES = ("jpg", "png", "gif", "bmp", "webp")
VIEW = tfdml.datasets.Preprocessing(size=12)


def write_photos(folder):
    """Ten images of two classes, bright and dark, in all formats; and one that is cut."""
    rng = np.random.default_rng(0)
    for name, level in (("bright", 180), ("dark", 20)):
        (folder / name).mkdir(parents=True)
        for suffix in SUFFIXES:
            pixels = rng.integers(level, level + 60, (20, 16, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"photo.{suffix}")
    content = (folder / "dark" / "photo.jpg").read_bytes()
    (folder / "dark" / "cut.jpg").write_bytes(content[: len(content) // 2])


def network():
    """A model of mean colors."""
    images = keras.Input((12, 12, 3), dtype="uint8")
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Rescaling(1 / 255)(images))
    model = tfdml.models.EmbeddingModel(images, keras.layers.UnitNormalization()(keras.layers.Dense(4)(x)))
    model.compile("adam", loss=tfdml.losses.ContrastiveLoss())
    return model


def trained(model, data, folder):
    """Recall of two epochs, and of the model that a checkpoint brings back."""
    watch = [tfdml.callbacks.RetrievalEvaluation(data, k=1), tfdml.callbacks.TrainingCheckpoint(folder / "model.keras")]
    history = model.fit(data.examples(), data.labels, batch_size=10, epochs=2, verbose=0, callbacks=watch).history
    again = keras.saving.load_model(folder / "model.keras")
    np.testing.assert_allclose(tfdml.models.embed(again, data), tfdml.models.embed(model, data), atol=1e-6)
    model.fit(data.batches(5), verbose=0)
    model.fit(SAMPLER.batches(data, start=3), steps_per_epoch=2, epochs=2, shuffle=False, verbose=0)
    return history["val_recall@1"]


def searched(vectors, folder):
    """Each random vector is nearest to itself, in every index that is saved and loaded."""
    vectors = np.random.default_rng(1).standard_normal(vectors.shape).astype(np.float32)
    for kind in (tfdml.search.Exact, tfdml.search.Faiss):
        kind(vectors).save(folder / kind.__name__)
        rows, _ = tfdml.search.load(folder / kind.__name__).search(vectors, 1)
        assert sorted(rows[:, 0]) == list(range(len(vectors)))


def drawn(model, data, vectors, folder):
    """Figures, thumbnails and a page."""
    assert tfdml.visualize.retrieval_grid(vectors, data, queries=2).axes
    assert tfdml.visualize.embedding_map(vectors, data, method="pca").axes
    large = np.zeros((4, 300, 200, 3), np.uint8)
    assert tfdml.visualize.retrieval_grid(np.eye(4), large, [0, 0, 1, 1], queries=1).axes
    for examples in (data, large):
        file = tfdml.visualize.write_thumbnails(folder / "thumbnails.zip", np.arange(len(examples)), examples)
        assert len(tfdml.visualize.Thumbnails.load(file)) == len(examples)
    assert tfdml.evaluate(model, data).html(folder / "page.html").exists()


def answer(call):
    """The error of a call."""
    try:
        return f"no error, but {call()}"
    except (ImportError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def refused(model, data):
    """What calls say that need TensorFlow."""
    fast = tfdml.datasets.Preprocessing(size=12, inverse_dct="fast")
    calls = {
        "tfds": lambda: tfdml.datasets.tfds("mnist", "train"),
        "inverse_dct='fast'": lambda: fast(data.paths[0]),
        "PairDiagnostics": lambda: tfdml.callbacks.PairDiagnostics(data, path="unwritten"),
        "SavedModel": lambda: tfdml.export.saved_model(model, "unwritten"),
    }
    return {name: answer(call) for name, call in calls.items()}


def main(folder):
    """One line of JSON."""
    write_photos(folder / "photos")
    photos = tfdml.datasets.folder(folder / "photos", load=VIEW)
    check = photos.check_files()
    data, model = photos.take(check.usable_rows), network()
    cached = data.cached(folder / "cache")
    np.testing.assert_array_equal(cached.examples(), data.examples())
    recall = trained(model, data, folder)
    vectors = tfdml.models.embed(model, data, batch_size=4)
    searched(vectors, folder)
    drawn(model, data, vectors, folder)
    all_photos = tfdml.cleaning.select(np.eye(len(photos)), len(photos))
    page = tfdml.cleaning.write_selection(all_photos, photos, folder / "to-label") / "label.html"
    assert page.read_text().count("data:image/jpeg") == len(data)
    skipped = tfdml.models.write_embeddings(model, photos, folder / "embeddings")
    comparison = tfdml.evaluation.compare({"one": np.asarray(vectors), "two": vectors[:, ::-1].copy()}, data.labels)
    batches = SAMPLER.batches(data)
    found = {
        "backend": keras.backend.backend(),
        "pixels": data.examples().tolist(),
        "batch": SAMPLER.batches(data, augment=CROP)[70][0].tolist(),
        "input pairs": [
            part.tolist() for part in keras.tree.flatten(tfdml.samplers.input_pairs(batches, pairs_per_batch=5)[3])
        ],
        "turned": tfdml.datasets.rotated_classes(batches[0][0], (0, 1), examples_per_class=3).tolist(),
        "problems": [reason for _, _, reason in check.problems],
        "skipped": [reason for _, _, reason in skipped],
        "recall": recall,
        "pairs": len(comparison.pairs),
        "refused": refused(model, data),
        "has TensorFlow": "tensorflow" in sys.modules,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
