"""Training on another backend, in processes of its own: killed in the second epoch, or resumed and printed."""

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import keras
import numpy as np

from tfdml import callbacks, layers, losses, metrics, miners, models, samplers

IMAGES = np.random.default_rng(0).integers(0, 256, (60, 4, 4, 1), dtype="uint8")
LABELS = np.arange(60) // 6
TEST, TEST_LABELS = IMAGES[::-1].copy(), LABELS
STEPS, EPOCHS = 3, 3


def build():
    """A model with a random layer, and a loss that learns boundaries and draws pairs."""
    keras.utils.set_random_seed(0)
    images = keras.Input((4, 4, 1), dtype="uint8")
    x = keras.layers.GaussianNoise(0.1)(keras.layers.Rescaling(1 / 255)(images))
    x = keras.layers.Dense(8, activation="relu")(keras.layers.Flatten()(x))
    model = models.EmbeddingModel(images, keras.layers.UnitNormalization()(keras.layers.Dense(4)(x)))
    boundary = layers.Boundaries(class_ids=LABELS)
    model.compile(
        keras.optimizers.Adam(0.01), loss=losses.MarginLoss(boundary=boundary, miner=miners.BalancedPairs(seed=0))
    )
    return model


def fit(model, *watch):
    """Train to the last epoch; the logs."""
    sampler = samplers.GroupSampler(classes_per_batch=4, examples_per_class=3, seed=0)
    return model.fit(
        sampler.batches(IMAGES, LABELS, start=model.steps),
        steps_per_epoch=STEPS,
        initial_epoch=model.steps // STEPS,
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        callbacks=[callbacks.RetrievalEvaluation((TEST, TEST_LABELS), k=1), *watch],
    ).history


class Killed(keras.callbacks.Callback):
    """End the process, as a scheduler does, in the second epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if self.model.steps == STEPS + 2:
            os.kill(os.getpid(), signal.SIGKILL)


def values(model):
    """Every variable of a model, also the state of random layers."""
    return [keras.ops.convert_to_numpy(variable).tolist() for variable in model.variables]


def resumed(file):
    """What came of the run that was killed, and of one that was not."""
    model, whole = keras.saving.load_model(file), build()
    first = model.steps
    history = fit(model, callbacks.TrainingCheckpoint(file))
    fit(whole)
    embeddings = model.predict(TEST, verbose=0)
    return {
        "backend": keras.backend.backend(),
        "steps": [first, model.steps],
        "state": values(model),
        "uninterrupted": values(whole),
        "recall": history["val_recall@1"],
        "by hand": metrics.retrieval(embeddings, TEST_LABELS, k=1)["recall@1"],
        "embeddings": embeddings.tolist(),
        "export": refused_export(file.with_name("export")),
    }


def refused_export(path):
    """The message of a callback that cannot work on another backend than TensorFlow."""
    try:
        return callbacks.ExportBest(path).path
    except RuntimeError as error:
        return str(error)


def main():
    """One line of JSON, unless killed."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy keyword", DeprecationWarning)
    file = Path(sys.argv[1])
    if sys.argv[2:] == ["embed"]:
        embeddings = keras.saving.load_model(file).predict(TEST, verbose=0)
        print(json.dumps({"backend": keras.backend.backend(), "embeddings": embeddings.tolist()}))
        return
    if not file.exists():
        fit(build(), callbacks.TrainingCheckpoint(file), Killed())
    print(json.dumps(resumed(file)))


if __name__ == "__main__":
    main()
