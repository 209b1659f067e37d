"""Training on one and on two devices of JAX, printed for a test: in a process of its own, as devices are set early."""

import json
import sys
import warnings

import keras
import numpy as np

from tfdml import callbacks, layers, losses, metrics, miners, models, samplers

X = np.random.default_rng(0).standard_normal((48, 5)).astype("float32")
LABELS = np.arange(48) // 6
TEST, TEST_LABELS = X[:33], LABELS[:33]  # an odd number of rows
STEPS = 3


def build():
    """A model of one linear layer, and a loss that learns, draws and remembers."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(4)(inputs))
    model.compile(keras.optimizers.SGD(0.1), loss=losses.WeightedSumLoss(parts()))
    return model


def parts():
    """Losses that learn boundaries and proxies, draw pairs and classes, and remember two batches."""
    proxies = layers.Proxies(8, initializer=keras.initializers.RandomNormal(seed=0), num_sampled_classes=3, seed=0)
    return [
        losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS), miner=miners.BalancedPairs(seed=0)),
        losses.ContrastiveLoss(pairing=layers.Memory(24, warm_up=1)),
        losses.CosFaceLoss(pairing=proxies, scale=4.0),
    ]


def trained(model, file):
    """The logs and the variables of a run of two epochs that is saved and evaluated."""
    sampler = samplers.GroupSampler(classes_per_batch=4, examples_per_class=3, seed=0)
    watch = [callbacks.RetrievalEvaluation((TEST, TEST_LABELS), k=1), callbacks.TrainingCheckpoint(file)]
    history = model.fit(
        sampler.batches(X, LABELS, start=model.steps),
        steps_per_epoch=STEPS,
        initial_epoch=model.steps // STEPS,
        epochs=model.steps // STEPS + 2,
        shuffle=False,
        verbose=0,
        callbacks=watch,
    ).history
    weights = [keras.ops.convert_to_numpy(variable).tolist() for variable in model.variables]
    return {"steps": model.steps, "loss": history["loss"], "recall": history["val_recall@1"], "weights": weights}


def main():
    """One line of JSON: the same run on one device and on two; then uninterrupted on one, and resumed on two."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy keyword", DeprecationWarning)
    file = f"{sys.argv[1]}/state.keras"
    model = build()
    found = {"one": trained(model, file), "one, longer": trained(model, file)}
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    model = build()
    found["two"] = trained(model, file)
    kernel = model.trainable_variables[0].value
    found["devices"] = len(kernel.sharding.device_set)
    found["by hand"] = metrics.retrieval(
        TEST @ np.asarray(kernel) + np.asarray(model.layers[-1].bias), TEST_LABELS, k=1
    )
    found["two, longer"] = trained(keras.saving.load_model(file), file)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
