"""Models exported with an index, as servers see them."""

import json
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tests.damage import flip
from tests.export.test_saved_model import png
from tests.oracles import scores_of
from tests.search.index.test_index_files import files_of
from tfdml import datasets, export, models

NAMES = np.array([f"item-{row}" for row in range(30)])


@pytest.fixture(scope="module")
def model():
    """Its weights are numbers of float16, so an export stores halves."""
    inputs = keras.Input((16, 16, 1))
    model = models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=6, widths=(4,)))
    model.set_weights([weight.astype("float16") for weight in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (30, 16, 16, 1), dtype="uint8")


@pytest.fixture(scope="module")
def index(model, images):
    """What an export reads of an index: those of `tfdml.search` have the same attributes."""
    metadata = pa.table({"label": [f"class {row % 3}" for row in range(30)], "price": np.arange(30) / 4})
    return SimpleNamespace(vectors=model.predict(images, verbose=0), ids=NAMES, metric="cosine", metadata=metadata)


@pytest.fixture(scope="module")
def folder(model, index, tmp_path_factory):
    path = export.next_version(tmp_path_factory.mktemp("served") / "products")
    options = {"class_names": ["class 0", "class 1", "class 2"], "threshold": 0.999, "on_error": "skip"}
    return export.saved_model(model, path, index=index, search=export.ExactSearch(k=4), **options)


@pytest.fixture(scope="module")
def served(folder):
    return tf.saved_model.load(str(folder)).signatures


def answer_of(signature, images):
    return {name: value.numpy() for name, value in signature(images=tf.constant(images)).items()}


def test_an_image_of_the_index_finds_itself_with_its_payload(served, images, index):
    answer = answer_of(served["search"], images)
    assert set(answer) == {"ids", "scores", "payload"}
    assert answer["ids"][:, 0].astype(str).tolist() == NAMES.tolist()
    np.testing.assert_allclose(
        answer["scores"], -np.sort(-scores_of(index.vectors, index.vectors), axis=1)[:, :4], atol=1e-5
    )
    for name, payload in zip(answer["ids"].ravel(), answer["payload"].ravel(), strict=True):
        row = int(name.decode().removeprefix("item-"))
        assert json.loads(payload) == {"label": f"class {row % 3}", "price": row / 4}


def test_files_are_searched_as_pixels_are_and_invalid_ones_are_marked(served, images):
    answer = answer_of(served["search_bytes"], [png(images[3]), b"not an image", png(images[4])])
    expected = answer_of(served["search"], images[3:5])
    for name, values in expected.items():
        if values.dtype == np.float32:
            np.testing.assert_allclose(answer[name][[0, 2]], values, atol=1e-5)
        else:
            np.testing.assert_array_equal(answer[name][[0, 2]], values)
    assert (answer["ids"][1] == b"").all()
    assert (answer["scores"][1] == 0).all()
    assert [bool(error) for error in answer["error"]] == [False, True, False]


def test_match_returns_the_nearest_id_or_unknown(served, images, index):
    other = np.random.default_rng(1).integers(0, 256, (20, 16, 16, 1), dtype="uint8") // 4
    answer = answer_of(served["match"], np.concatenate([images[:2], other]))
    found = answer_of(served["search"], np.concatenate([images[:2], other]))
    expected = [i if s >= 0.999 else b"unknown" for i, s in zip(found["ids"][:, 0], found["scores"][:, 0], strict=True)]
    assert answer["id"].tolist() == expected
    assert answer["id"][:2].tolist() == [b"item-0", b"item-1"]
    assert b"unknown" in expected
    np.testing.assert_allclose(answer["score"], found["scores"][:, 0], atol=1e-6)
    bytes_answer = answer_of(served["match_bytes"], [png(images[1]), b"no"])
    assert bytes_answer["id"].tolist() == [b"item-1", b""]


def test_embed_takes_what_the_network_takes_without_rounding(model, served, images):
    pixels = images[:3].astype("float32") + 0.25
    answer = answer_of(served["embed"], pixels)
    np.testing.assert_allclose(answer["embedding"], model.predict(pixels, verbose=0), atol=1e-5)


@pytest.mark.parametrize("name", ["search", "match"])
def test_an_empty_batch_has_no_neighbors(served, name):
    for value in answer_of(served[name], np.zeros((0, 16, 16, 1), "uint8")).values():
        assert value.shape[0] == 0
    for value in served[f"{name}_bytes"](images=tf.constant([], tf.string)).values():
        assert value.shape[0] == 0


@pytest.mark.slow
def test_whole_numbers_stay_numbers_and_distances_match_from_below(model, images, index, tmp_path):
    numbers = SimpleNamespace(vectors=index.vectors, ids=2**40 + np.arange(30), metric="euclidean")
    search = export.PartitionedSearch(k=2, cells=3, probes=3)
    path = export.saved_model(model, tmp_path / "model", index=numbers, search=search, threshold=-0.001)
    served = tf.saved_model.load(str(path)).signatures
    answer = answer_of(served["search"], images)
    assert answer["ids"].dtype == np.int64
    np.testing.assert_array_equal(answer["ids"][:, 0], 2**40 + np.arange(30))
    assert (np.diff(answer["scores"], axis=1) >= 0).all()
    assert "payload" not in answer
    assert answer_of(served["match"], images[:1])["id"].tolist() == [str(2**40).encode()]
    about = json.loads((path / "assets.extra" / "search.json").read_text())
    expected = {"search": "PartitionedSearch", "vectors": 30, "dim": 6, "metric": "euclidean", "k": 2}
    assert about == {**expected, "dtype": "float32", "cells": 3, "probes": 3}


def test_names_preprocessing_and_versions_travel_along(folder):
    extra, loaded = folder / "assets.extra", export.load(folder)
    assert json.loads((extra / "class_names.json").read_text()) == ["class 0", "class 1", "class 2"]
    assert datasets.Preprocessing(**json.loads((extra / "preprocessing.json").read_text())).shape == (16, 16, 1)
    assert json.loads((extra / "versions.json").read_text())["tensorflow"] == tf.__version__
    assert loaded.threshold == 0.999


@pytest.mark.slow
def test_a_flipped_bit_in_any_file_of_a_model_is_found_before_it_is_parsed(folder, tmp_path, monkeypatch):
    path = tmp_path / "model"
    shutil.copytree(folder, path)
    names = {file.relative_to(path).parts[0] for file in files_of(path)}
    assert names == {"saved_model.pb", "fingerprint.pb", "variables", "assets.extra"}
    load = tf.saved_model.load
    monkeypatch.setattr(tf.saved_model, "load", lambda *_: pytest.fail("parsed before it was checked"))
    for file in files_of(path):
        for bit in (0, 8 * file.stat().st_size - 1):
            flip(file, bit)
            with pytest.raises(ValueError, match=r"SavedModel that cannot be read .*expected the files as they were"):
                export.load(path)
            flip(file, bit)
    monkeypatch.setattr(tf.saved_model, "load", load)
    (path / "README.md").write_text("more about the model")
    assert export.load(path).class_names == ("class 0", "class 1", "class 2")
    (path / "assets.extra" / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match=r"SHA256SUMS: .*expected the files as they were"):
        export.load(path)


def test_the_highest_version_is_loaded_and_named(folder, tmp_path):
    for name in ("9", "10", "notes"):
        shutil.copytree(folder, tmp_path / name)
    assert (export.load(tmp_path).version, export.load(tmp_path / "9").version) == (10, 9)
    assert export.load(tmp_path / "notes").version == 1
    (tmp_path / "10" / "assets.extra" / "threshold.json").write_text("0.5")
    with pytest.raises(ValueError, match=r"10', a SavedModel that cannot be read .*threshold.json"):
        export.load(tmp_path)


PROGRAM = """
import sys, json
sys.modules["keras"] = sys.modules["tfdml"] = sys.modules["scann"] = None  # importing one of them raises ImportError
import numpy as np, tensorflow as tf
images, folder, by_scann = np.load(sys.argv[1]), *sys.argv[2:]

def answers(folder):
    served = tf.saved_model.load(folder).signatures
    files = tf.stack([tf.io.encode_png(image) for image in images])
    for outputs in served["search"](images=tf.constant(images)), served["search_bytes"](images=files):
        yield {name: value.numpy().tolist() for name, value in outputs.items()}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], folder).signature_def["search"]
        outputs = {name: tensor.name for name, tensor in signature.outputs.items()}
        found = session.run(outputs, {signature.inputs["images"].name: images})
        yield {name: value.tolist() for name, value in found.items()}

found = [*answers(folder)]
del sys.modules["scann"]
import scann
print(json.dumps([found, [*answers(by_scann)]], default=bytes.decode))
"""


@pytest.mark.slow
def test_a_fresh_process_searches_with_tensorflow_alone_or_with_scann_in_both_loaders(
    model, served, folder, images, tmp_path
):
    vectors = np.concatenate([model.predict(images, verbose=0), np.random.default_rng(0).normal(size=(1000, 6))])
    index = SimpleNamespace(vectors=vectors.astype("float32"), ids=np.arange(1030), metric="cosine", metadata=None)
    by_scann = export.saved_model(model, tmp_path / "model", index=index, search=export.ScannSearch(k=3))
    np.save(tmp_path / "images.npy", images[:3])
    command = [sys.executable, "-c", PROGRAM, *map(str, (tmp_path / "images.npy", folder, by_scann))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    of_tensorflow, of_scann = json.loads(done.stdout)
    expected = answer_of(served["search"], images[:3])
    for answer in of_tensorflow:
        assert answer["ids"] == expected["ids"].astype(str).tolist()
        assert answer["payload"] == expected["payload"].astype(str).tolist()
        np.testing.assert_allclose(answer["scores"], expected["scores"], atol=1e-5)
    for answer in of_scann:
        assert [row[0] for row in answer["ids"]] == [0, 1, 2]


def without(index, **changes):
    return SimpleNamespace(**{**vars(index), **changes})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (lambda index: {"search": export.ExactSearch()}, "without an index, expected index="),
        (lambda index: {"index": index, "search": "faiss"}, "search='faiss', expected 'exact', 'partitioned'"),
        (
            lambda index: {"index": without(index, vectors=np.ones((30, 5)))},
            "an index of dim 5, expected 6 as in the model",
        ),
        (
            lambda index: {"index": without(index, fingerprint="f00d")},
            "as of the index (fingerprint f00d). Embed them again with one model",
        ),
        (lambda index: {"index": index, "search": export.ExactSearch(k=31)}, "k=31 for an index of 30 vectors"),
        (
            lambda index: {"index": without(index, ids=np.append(NAMES[:-1], "unknown")), "threshold": 0.5},
            "the id 'unknown', which match returns for no match",
        ),
    ],
)
def test_an_index_that_does_not_fit_is_named_and_nothing_is_written(model, index, options, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        export.saved_model(model, tmp_path / "model", **options(index))
    assert not list(tmp_path.iterdir())


def test_versions_count_up(folder, tmp_path):
    products = folder.parent
    assert folder.name == "1"
    assert export.next_version(products) == products / "2"
    for name in ("7", "old", "9"):
        (tmp_path / name).mkdir()
    (tmp_path / "7" / "saved_model.pb").write_bytes(b"")
    assert export.next_version(tmp_path) == tmp_path / "8"  # 9 holds no model


def test_the_files_of_the_server_list_every_model(folder):
    home = folder.parents[1]
    command = export.write_serving_config(home)
    assert (home / "models.config").read_text().splitlines()[0] == f"# {command}"
    batching = (home / "batching.config").read_text().splitlines()
    assert batching[:2] == ["max_batch_size { value: 32 }", "batch_timeout_micros { value: 2000 }"]
    assert f"{home}:/models:ro" in command
    assert command.startswith("docker run --rm -p 127.0.0.1:8500:8500 -p 127.0.0.1:8501:8501 ")


def test_a_folder_without_models_has_nothing_to_serve(tmp_path):
    with pytest.raises(ValueError, match=r"without a model NAME/VERSION, expected models saved at next_version"):
        export.write_serving_config(tmp_path)
    assert not list(tmp_path.iterdir())
