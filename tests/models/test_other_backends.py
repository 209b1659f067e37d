"""Trained on JAX and on PyTorch, killed, resumed; loaded, exported and trained further on TensorFlow."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.programs import other_backend, result_of, started
from tfdml import export

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["jax", "torch"])
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def file(backend, tmp_path_factory):
    return tmp_path_factory.mktemp(backend) / "state.keras"


@pytest.fixture(scope="module")
def found(file, backend):
    """What the second process printed; the first was killed."""
    # what both processes and both models train is compiled once
    once = {
        "JAX_COMPILATION_CACHE_DIR": str(file.with_name("compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    killed, done = (started("other_backend", file, backend=backend, **once) for _ in range(2))
    assert killed.returncode == -9, killed.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_killed_run_resumes_after_its_last_whole_epoch_and_ends_as_an_uninterrupted_one(found, backend):
    assert found["backend"] == backend
    assert found["steps"] == [other_backend.STEPS, other_backend.STEPS * other_backend.EPOCHS]
    assert found["state"] == found["uninterrupted"]


def test_evaluation_during_training_is_that_of_the_embeddings(found):
    assert len(found["recall"]) == other_backend.EPOCHS - 1
    assert found["recall"][-1] == pytest.approx(found["by hand"])


def test_tensorflow_serves_the_embeddings_of_the_other_backend(found, file, tmp_path):
    model = keras.saving.load_model(file)
    np.testing.assert_allclose(model.predict(other_backend.TEST, verbose=0), found["embeddings"], rtol=1e-5, atol=1e-5)
    served = tf.saved_model.load(str(export.saved_model(model, tmp_path / "export"))).signatures["serving_default"]
    embeddings = served(images=tf.constant(other_backend.TEST))["embedding"]
    np.testing.assert_allclose(embeddings, found["embeddings"], rtol=1e-5, atol=1e-5)


def test_tensorflow_trains_a_file_of_the_other_backend_further(found, file, monkeypatch):
    model = keras.saving.load_model(file)
    for ours, theirs in zip(other_backend.values(model), found["state"], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    monkeypatch.setattr(other_backend, "EPOCHS", other_backend.EPOCHS + 1)
    other_backend.fit(model)
    assert model.steps == other_backend.STEPS * other_backend.EPOCHS


def test_an_export_during_training_is_refused_before_it_begins(found, backend):
    assert f"on the {backend!r} backend, expected 'tensorflow'" in found["export"]
    assert "model.save('model.keras')" in found["export"]


@pytest.mark.parametrize("backend", ["jax", pytest.param("torch", marks=pytest.mark.nightly)], indirect=True)
def test_each_other_backend_embeds_as_the_one_that_trained(found, file, backend):
    other = {"jax": "torch", "torch": "jax"}[backend]
    embedded = result_of("other_backend", file, "embed", backend=other)
    assert embedded["backend"] == other
    np.testing.assert_allclose(embedded["embeddings"], found["embeddings"], rtol=1e-5, atol=1e-5)
