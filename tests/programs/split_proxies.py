"""Proxies over eight devices of JAX, printed for a test: in a process of its own, as devices are set early."""

import json
import re
import sys

import jax
import keras
import numpy as np

from tfdml import callbacks, layers, losses, models, samplers

MILLION, DIM, BATCH = 1_000_000, 128, 64
X = np.random.default_rng(0).standard_normal((48, 5)).astype("float32")
LABELS = np.arange(48) // 6


def split_proxies():
    """Eight devices, each with an eighth of the proxies and all rows of a batch."""
    layout = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((1, 8), ("batch", "model")))
    layout["proxies.*/vectors"] = ("model", None)
    return keras.distribution.ModelParallel(layout_map=layout)


def build(loss, *, features=5, dim=4, **options):
    """A linear network with a loss of proxies."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((features,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(dim)(inputs))
    model.compile(keras.optimizers.SGD(0.1, **options), loss=loss)
    return model


def memory_of_a_step(loss):
    """The bytes that one device needs for the variables and for a training step, and what it gets from the others."""
    model = build(loss, features=8, dim=DIM)
    batch = np.zeros((BATCH, 8), "float32"), np.arange(BATCH) // 2
    model.optimizer.build(model.trainable_variables)
    model._symbolic_build(data_batch=batch)
    step = jax.jit(model.train_step, donate_argnums=0, out_shardings=(None, model._get_state_sharding_spec()))
    compiled = step.lower(model._get_jax_state(True, True, True, True), batch).compile()
    memory, text = compiled.memory_analysis(), compiled.as_text()
    return {
        "shard": model.trainable_variables[-1].value.addressable_shards[0].data.shape,
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "gathers": len(re.findall(r" all-(?:gather|to-all)[\w-]*\(", text)),
    }


def trained(file):
    """The losses of two steps, and the variables that were saved and loaded."""
    proxies = [losses.CosFaceLoss(classes=16, scale=4.0), losses.ProxyNCALoss(classes=16)]
    sampler = samplers.GroupSampler(classes_per_batch=4, examples_per_class=3, seed=0)
    found = build(losses.WeightedSumLoss(proxies), momentum=0.9).fit(
        sampler.batches(X, LABELS),
        steps_per_epoch=1,
        epochs=2,
        shuffle=False,
        verbose=0,
        callbacks=[callbacks.TrainingCheckpoint(file)],
    )
    model = keras.saving.load_model(file)
    weights = [*model.trainable_variables, *model.optimizer.variables]
    return {
        "loss": found.history["loss"],
        "weights": [keras.ops.convert_to_numpy(variable).tolist() for variable in weights],
        "devices": len(model.trainable_variables[-1].value.sharding.device_set),
    }


def main():
    """One line of JSON: runs of one device, of eight, and the memory of a million classes on eight."""
    file = f"{sys.argv[1]}/state.keras"
    found = {"one": trained(file)}
    keras.distribution.set_distribution(split_proxies())
    found["eight"] = trained(file)
    found["million"] = memory_of_a_step(losses.CosFaceLoss(pairing=layers.Proxies(MILLION, initializer="zeros")))
    found["squared"] = memory_of_a_step(losses.ProxyNCALoss(classes=8000))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
