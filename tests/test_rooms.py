"""Every room in a few lines: what `make smoke` runs on the newest versions of Python, Keras and TensorFlow."""

import dataclasses
import importlib.util
import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.worlds import write_png

LABELS = np.repeat(np.arange(6), 4)
IMAGES = (40 * LABELS[:, None, None, None] + np.random.default_rng(0).integers(0, 16, (24, 8, 8, 1))).astype("uint8")
# Two points of each of two classes, on a line.
POINTS, CLASSES = np.array([[0.0], [0.5], [1.5], [3.5]], "float32"), np.array([0, 0, 1, 1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model after two epochs with all that a run uses, the history, and the folder of what was written."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("run")
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=4, widths=(4,)))
    loss = tfdml.losses.MarginLoss(miner=tfdml.miners.DistanceWeighted(seed=0))
    model.compile("adam", loss=loss, jit_compile=True)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=4, examples_per_class=2, seed=0)
    callbacks = [
        tfdml.callbacks.RetrievalEvaluation((IMAGES, LABELS), k=1),
        tfdml.callbacks.PairDiagnostics(IMAGES, LABELS, path=folder / "logs"),
        tfdml.callbacks.ExportBest(folder / "export"),
        tfdml.callbacks.TrainingCheckpoint(folder / "last.keras"),
    ]
    batches = sampler.batches(IMAGES, LABELS)
    run = model.fit(batches, steps_per_epoch=3, epochs=2, shuffle=False, callbacks=callbacks, verbose=0)
    return SimpleNamespace(model=model, history=run.history, folder=folder, sampler=sampler)


def addons(trained):
    # d_ap - d_an + 1 of the farthest positive and the nearest negative: 0, 1/2, 2 and 0.
    value = float(tfdml.addons.TripletHardLoss(margin=1.0)(CLASSES, POINTS))
    assert value == pytest.approx(2.5 / 4)


def analysis(trained):
    x = trained.model.predict(IMAGES, verbose=0)
    weights = tfdml.analysis.pair_weights(tfdml.losses.BinomialDevianceLoss(), x, LABELS)
    np.testing.assert_allclose(weights, weights.T)
    assert (weights[~np.eye(24, dtype=bool)] > 0).all()


def callbacks(trained):
    for key in ("loss", "val_recall@1", "val_map@r", "active_negatives", "negative_distance"):
        assert np.isfinite(trained.history[key]).all()
    assert list((trained.folder / "logs").glob("events*"))
    loaded = keras.saving.load_model(trained.folder / "last.keras")
    assert int(loaded.optimizer.iterations) == 6


def cleaning(trained):
    twice = tfdml.datasets.LabeledSet(
        images=IMAGES[[*range(24), 0]], labels=np.append(LABELS, 0), class_names=tuple("abcdef")
    )
    findings = tfdml.cleaning.clean(trained.model, twice, similarity=0.999999)
    assert ("duplicate", "24", "0") in {(finding.kind, finding.name, finding.other) for finding in findings.listed}


def datasets(trained):
    for label, image in zip(LABELS, IMAGES, strict=True):
        write_png(trained.folder / "images" / str(label) / f"{image.sum()}.png", image)
    files = tfdml.datasets.folder(trained.folder / "images")
    np.testing.assert_array_equal(files.labels, LABELS)


def distributed(trained):
    with pytest.raises(FileNotFoundError, match=r"without run\.json"):
        tfdml.distributed.search_shards(trained.folder, np.eye(4), 1)
    if not importlib.util.find_spec("ray"):
        with pytest.raises(ImportError, match=r"pip install tfdml\[ray\]"):
            tfdml.distributed.embed(trained.model, IMAGES, trained.folder / "shards")


def models(trained):
    norms = np.linalg.norm(trained.model.predict(IMAGES, verbose=0), axis=1)
    np.testing.assert_allclose(norms, 1.0, atol=1e-5)
    assert tfdml.models.write_embeddings(trained.model, IMAGES, trained.folder / "embeddings") == ()
    written = tfdml.models.read_embeddings(trained.folder / "embeddings")
    np.testing.assert_allclose(written.embeddings, trained.model.predict(IMAGES, verbose=0), atol=1e-6)


def environment(trained):
    assert f"tensorflow {tf.__version__}" in tfdml.environment()["versions"]


def evaluate(trained):
    found = tfdml.evaluate(trained.model, tfdml.datasets.LabeledSet(images=IMAGES, labels=LABELS, class_names="abcdef"))
    assert found.metrics["map@r"].value == pytest.approx(trained.history["val_map@r"][-1])
    record = found.save(trained.folder / "report") / "evaluation.json"
    assert json.loads(record.read_text())["queries"] == found.queries


def evaluation(trained):
    data = tfdml.datasets.LabeledSet(images=IMAGES, labels=LABELS, class_names="abcdef")
    held_out = [name for _, validation in tfdml.evaluation.class_folds(data, 2) for name in validation.class_names]
    assert sorted(held_out) == list("abcdef")


def export(trained):
    # Which epoch was the best is not known here, so another export is made.
    folder = tfdml.export.saved_model(trained.model, trained.folder / "another")
    found = tf.saved_model.load(str(folder)).signatures["serving_default"](images=tf.constant(IMAGES))["embedding"]
    np.testing.assert_allclose(found, trained.model.predict(IMAGES, verbose=0), atol=1e-5)
    assert (trained.folder / "export" / "saved_model.pb").exists()


def importance(trained):
    q = trained.sampler.pair_probabilities(LABELS)
    assert q.of(LABELS).sum() == pytest.approx(1.0)


def layers(trained):
    boundaries = tfdml.layers.Boundaries(initial=1.0, class_ids=CLASSES)
    boundaries.weights[1].assign([0.0, 0.5])
    np.testing.assert_allclose(boundaries(tfdml.pairs.all_pairs(CLASSES, POINTS)), [1.0, 1.0, 1.5, 1.5])


def losses(trained):
    # Ordered pairs: positives at 1/2 and 2, negatives at 3/2 and 1 within a margin of 2, and two beyond it.
    value = float(tfdml.losses.ContrastiveLoss(negative_margin=2.0)(CLASSES, POINTS))
    assert value == pytest.approx(2 * (0.25 + 4.0 + 0.25 + 1.0) / 12)


def metrics(trained):
    found = tfdml.metrics.retrieval(POINTS, CLASSES, k=1, metric="euclidean")
    assert found["recall@1"] == 0.75  # The third point is nearer to the second than to the fourth.


def miners(trained):
    kept = tfdml.miners.HardestNegatives()(tfdml.pairs.all_pairs(CLASSES, POINTS))
    expected = [[0, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(kept.negative), expected)


def networks(trained):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="head")])
    tfdml.networks.freeze(model)
    assert not model.trainable_weights


def pairs(trained):
    found = tfdml.pairs.all_pairs(CLASSES, POINTS)
    np.testing.assert_allclose(tfdml.pairs.euclidean(found), np.abs(POINTS - POINTS.T), atol=1e-5)


def samplers(trained):
    rows = trained.sampler.index_batches(LABELS, start=5)[0]
    again = trained.sampler.index_batches(LABELS)[5]
    np.testing.assert_array_equal(rows, again)
    assert np.unique(LABELS[rows], return_counts=True)[1].tolist() == [2, 2, 2, 2]


def search(trained):
    x = trained.model.predict(IMAGES, verbose=0)
    tfdml.search.Exact(x).save(trained.folder / "index")
    ids, _ = tfdml.search.load(trained.folder / "index").search(x, 1)
    np.testing.assert_allclose(x[ids[:, 0]], x, atol=1e-6)
    if tf.__version__.startswith("2.20."):
        assert tfdml.search.Scann(x).search(x, 2)[0].shape == (24, 2)
    else:
        with pytest.raises(ImportError, match=r"TensorFlow 2\.20.* pip install tfdml\[scann\]"):
            tfdml.search.Scann(x)
    if importlib.util.find_spec("faiss"):
        assert tfdml.search.Faiss(x).search(x, 2)[0].shape == (24, 2)
    else:
        with pytest.raises(ImportError, match=r"pip install tfdml\[faiss\]"):
            tfdml.search.Faiss(x)


def serving(trained):
    view = tfdml.datasets.Preprocessing(size=8, channels=1)
    application = tfdml.serving.application(trained.model, view)
    assert "/v1/models/model:predict" in {resource.canonical for resource in application.router.resources()}


def training(trained):
    data = tfdml.datasets.LabeledSet(images=IMAGES, labels=LABELS, class_names=tuple("abcdef"))
    options = {"backbone": "residual", "size": 16, "dim": 4, "classes_per_batch": 2, "steps": 2, "epochs": 1}
    run = tfdml.training.train(data, trained.folder / "run", verbose=0, **options)
    assert tfdml.zoo.check("run", root=trained.folder) == ()
    assert tfdml.training.read_settings(run.folder / "settings.toml") == dataclasses.asdict(run.settings)


def visualize(trained):
    x = trained.model.predict(IMAGES, verbose=0)
    figure = tfdml.visualize.retrieval_grid(x, IMAGES, LABELS, queries=2, k=3)
    figure.savefig(trained.folder / "neighbors.png")
    assert (trained.folder / "neighbors.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 2 * 4


def zoo(trained):
    data = tfdml.datasets.LabeledSet(images=IMAGES, labels=LABELS, class_names="abcdef")
    about = {"summary": "", "recipe": "", "command": "", "seed": 0, "license": "", "root": trained.folder / "zoo"}
    tfdml.zoo.save(trained.model, "squares", data, **about)
    found = tfdml.zoo.evaluate("squares", root=trained.folder / "zoo", data=data)
    assert found.agrees
    assert found.metrics["map@r"].value == pytest.approx(trained.history["val_map@r"][-1])


@pytest.mark.nightly  # on this Python each room has its own tests
@pytest.mark.parametrize("room", tfdml.__all__)
def test_a_room_works(room, trained):
    globals()[room](trained)
