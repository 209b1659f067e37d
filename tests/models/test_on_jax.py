"""Trained on JAX, killed, resumed; loaded, exported and trained further on TensorFlow."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.programs import on_jax
from tfdml import export

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("jax") / "state.keras"


@pytest.fixture(scope="module")
def found(file):
    """What the second process printed; the first was killed."""
    command = [sys.executable, "-m", "tests.programs.on_jax", str(file)]
    # what both processes and both models train is compiled once
    once = {
        "JAX_COMPILATION_CACHE_DIR": str(file.with_name("compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", **once}
    killed, done = (
        subprocess.run(command, capture_output=True, text=True, env=environment, check=False) for _ in range(2)
    )
    assert killed.returncode == -9, killed.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_killed_run_resumes_after_its_last_whole_epoch_and_ends_as_an_uninterrupted_one(found):
    assert found["backend"] == "jax"
    assert found["steps"] == [on_jax.STEPS, on_jax.STEPS * on_jax.EPOCHS]
    assert found["state"] == found["uninterrupted"]


def test_evaluation_during_training_is_that_of_the_embeddings(found):
    assert len(found["recall"]) == on_jax.EPOCHS - 1
    assert found["recall"][-1] == pytest.approx(found["by hand"])


def test_tensorflow_serves_the_embeddings_of_jax(found, file, tmp_path):
    model = keras.saving.load_model(file)
    np.testing.assert_allclose(model.predict(on_jax.TEST, verbose=0), found["embeddings"], rtol=1e-5, atol=1e-5)
    served = tf.saved_model.load(str(export.saved_model(model, tmp_path / "export"))).signatures["serving_default"]
    embeddings = served(images=tf.constant(on_jax.TEST))["embedding"]
    np.testing.assert_allclose(embeddings, found["embeddings"], rtol=1e-5, atol=1e-5)


def test_tensorflow_trains_a_file_of_jax_further(found, file, monkeypatch):
    model = keras.saving.load_model(file)
    for ours, theirs in zip(on_jax.values(model), found["state"], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    monkeypatch.setattr(on_jax, "EPOCHS", on_jax.EPOCHS + 1)
    on_jax.fit(model)
    assert model.steps == on_jax.STEPS * on_jax.EPOCHS


def test_an_export_during_training_is_refused_before_it_begins(found):
    assert "on the 'jax' backend, expected 'tensorflow'" in found["export"]
    assert "model.save('model.keras')" in found["export"]
