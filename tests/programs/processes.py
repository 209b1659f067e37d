"""Training by two processes with two devices each for a test: killed in the second epoch, or resumed and compared."""

import json
import os
import signal
import sys
from pathlib import Path

import jax
import keras
import numpy as np

from tfdml import callbacks, layers, losses, models, samplers
from tfdml.models import devices

X = np.random.default_rng(0).standard_normal((48, 5)).astype("float32")
LABELS = np.arange(48) // 6
STEPS, EPOCHS, RATE = 2, 2, 0.1


def build():
    """A model with a random layer and a momentum, and losses of pairs and of proxies."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(4)(keras.layers.GaussianNoise(0.1)(inputs)))
    model.compile(keras.optimizers.SGD(RATE, momentum=0.9), loss=losses.WeightedSumLoss(parts()))
    return model


def parts():
    """A loss of the pairs of a batch, and one with proxies."""
    proxies = layers.Proxies(8, initializer=keras.initializers.RandomNormal(seed=0))
    return [losses.CosineContrastiveLoss(), losses.CosFaceLoss(pairing=proxies, scale=4.0)]


class FirstStep(keras.callbacks.Callback):
    """The kernel after the first training step, from which the gradient follows."""

    kernel = None

    def on_train_batch_end(self, batch, logs=None):
        if self.model.steps == 1:
            self.kernel = values(self.model)[0]


class Killed(keras.callbacks.Callback):
    """End this process in the second epoch, as the failure of a machine does."""

    def on_train_batch_end(self, batch, logs=None):
        if self.model.steps == STEPS + 1:
            os.kill(os.getpid(), signal.SIGKILL)


def fit(model, *watch, epochs=EPOCHS, **parts):
    """Train to the last epoch; the losses, and the kernel before and after the first step."""
    sampler, first = samplers.GroupSampler(classes_per_batch=4, examples_per_class=3, seed=0), FirstStep()
    before = values(model)[0]
    history = model.fit(
        sampler.batches(X, LABELS, start=model.steps, **parts),
        steps_per_epoch=STEPS,
        initial_epoch=model.steps // STEPS,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[first, *watch],
    ).history
    return {"loss": history["loss"], "kernels": [before, first.kernel], "steps": model.steps, "weights": values(model)}


def values(model):
    """Every variable of a model and of its optimizer, those that are learned first."""
    variables = [*model.trainable_variables, *model.non_trainable_variables, *model.optimizer.variables]
    return [keras.ops.convert_to_numpy(variable).tolist() for variable in variables]


def error(function, *arguments, **options):
    """The message of the ValueError that a call raises."""
    try:
        function(*arguments, **options)
    except ValueError as message:
        return str(message)


def other_version(name):
    return "0.0.9" if name == "tfdml" else "1.2.3"


def refused(index):
    """The errors of processes that differ in their version, and in their epochs."""
    model, version = build(), devices.version
    devices.version = other_version if index else version
    versions = error(fit, model)
    devices.version = version
    return {"versions": versions, "epochs": error(fit, model, epochs=3 + index)}


def split_proxies():
    """Two copies of the model, of which each process holds one, with half of the proxies on each device."""
    layout = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((2, 2), ("batch", "model")))
    layout["proxies.*/vectors"] = ("model", None)
    return keras.distribution.ModelParallel(layout_map=layout)


def compared(file, index):
    """The run that was killed, an uninterrupted one, one with split proxies, and one of a single device."""
    resumed = keras.saving.load_model(file)
    found = {"first": resumed.steps, "resumed": fit(resumed), **refused(index)}
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    found["whole"] = fit(build(), num_parts=2, part_index=index)  # each process draws its rows of each batch
    keras.distribution.set_distribution(split_proxies())
    split = build()
    fit(split, callbacks.TrainingCheckpoint(file))
    found["proxies"] = split.loss_layers[-1].vectors.value.addressable_shards[0].data.shape
    keras.distribution.set_distribution(None)
    found["split"] = values(keras.saving.load_model(file))
    return found | ({"one": fit(build())} if index == 0 else {})


def main():
    """Train until the second process is killed; or resume, and write a JSON file per process."""
    folder, port, index, action = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    keras.distribution.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=index)
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    file = folder / "state.keras"
    if action == "killed":
        fit(build(), callbacks.TrainingCheckpoint(file), *([Killed()] if index == 1 else []))
    (folder / f"{index}.json").write_text(json.dumps(compared(file, index)))


if __name__ == "__main__":
    main()
