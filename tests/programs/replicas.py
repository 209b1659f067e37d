"""`fit` on two replicas, printed for a test: in a process of its own, as devices are set before TensorFlow starts."""

import json
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfdml import callbacks, layers, losses, metrics, miners, models, networks, samplers

X = np.random.default_rng(0).integers(0, 256, (47, 2, 3, 1), dtype="uint8")
LABELS = np.arange(47) // 6
TEST = np.random.default_rng(1).integers(0, 256, (23, 2, 3, 1), dtype="uint8")
TEST_LABELS = np.arange(23) // 5
SMALL = {"loss_weights": 0.05}  # for losses of the size of a sum
SLOW = {"learning_rate_multipliers": {"embedding": 0.25}}
SGD = keras.optimizers.SGD
SAMPLER = samplers.GroupSampler(classes_per_batch=4, examples_per_class=4, seed=0)


def scaled(initial_scale, **options):
    """SGD of a loss whose scale doubles after every second finite step, and is halved after an overflow."""
    return keras.optimizers.LossScaleOptimizer(SGD(0.1, **options), initial_scale, dynamic_growth_steps=2)


def plain():
    """A loss without state."""
    return losses.ContrastiveLoss(negative_margin=4.0)


def learned_and_mined():
    """A loss with boundaries to learn and random pairs to remember."""
    return losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS), miner=miners.BalancedPairs(seed=0))


def remembering():
    """A loss with a memory of two batches, which is used from the second step on."""
    return losses.ContrastiveLoss(negative_margin=4.0, pairing=layers.Memory(32, warm_up=1))


def in_blocks():
    """A loss in blocks of anchors, which takes numbers of the whole batch."""
    return losses.LiftedStructureLoss(anchors_per_block=5)


def over_proxies(**options):
    """A loss with proxies, the same in every model."""
    return losses.CosFaceLoss(pairing=layers.Proxies(8, initializer=keras.initializers.RandomNormal(seed=0), **options))


def scalar(labels, x):
    """A function of one number for a batch, which Keras does not divide by the replicas."""
    return keras.ops.mean(keras.ops.square(x)) + 0.0 * keras.ops.sum(keras.ops.cast(labels, x.dtype))


class OwnScalar(keras.losses.Loss):
    """A loss of one number for a batch."""

    call = staticmethod(scalar)


def build(loss, kind=models.EmbeddingModel, lora=None, regularizer=None, optimizer=lambda: SGD(0.1), **options):
    """A model of one linear layer, compiled with `options`, with LoRA of rank `lora`."""
    keras.utils.set_random_seed(0)
    images = keras.Input((2, 3, 1), dtype="uint8")
    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 64)(images))
    model = kind(images, keras.layers.Dense(8, kernel_regularizer=regularizer, name="embedding")(x))
    if lora:
        networks.add_lora(model, lora)
    model.compile(optimizer(), loss=loss, **options)
    return model


def fit(model, *, start=0, **options):
    """Train on batches of 16 from step `start`, two per epoch; the labels are int64, as samplers give them."""
    return model.fit(SAMPLER.batches(X, LABELS, start=start), steps_per_epoch=2, shuffle=False, verbose=0, **options)


def state(model):
    """The weights of the embedding, what the loss learns, and the seeds of its miners."""
    counted = model._collapsed.state  # stays 0 where embeddings differ
    return [variable.numpy().tolist() for variable in model.variables if variable is not counted]


def whole_story(strategy, folder):
    """What came of training: interrupted and not, evaluated, exported."""
    with strategy.scope():
        model = build(learned_and_mined())
    begin, file = state(model), folder / "state.keras"
    options = {"k": 1, "batch_size": 10, "metrics": lambda x, _: {"rows": len(x), "sum": x.sum()}}
    evaluation = callbacks.RetrievalEvaluation((TEST, TEST_LABELS), **options)
    watch = [evaluation, callbacks.ExportBest(folder / "export"), callbacks.TrainingCheckpoint(file)]
    fit(model, epochs=1, callbacks=watch)
    with strategy.scope():
        resumed = keras.saving.load_model(file)
    first = model.steps
    fit(resumed, start=resumed.steps, initial_epoch=1, epochs=2)
    seen = fit(model, start=first, initial_epoch=1, epochs=2, callbacks=[evaluation]).history
    models.write_embeddings(model, TEST, folder / "embeddings", batch_size=10)
    x = model.predict(TEST, batch_size=23, verbose=0)
    served = tf.saved_model.load(str(folder / "export")).signatures["serving_default"]
    kernel, bias = keras.saving.load_model(file).get_layer("embedding").get_weights()
    return {
        "steps": [first, model.steps, resumed.steps],
        "begin": begin,
        "state": state(model),
        "resumed": state(resumed),
        "recall": seen["val_recall@1"][-1],
        "by hand": metrics.retrieval(x, TEST_LABELS, k=1)["recall@1"],
        "rows and sum": [seen["val_rows"][-1], seen["val_sum"][-1]],
        "rows and sum by hand": [23, float(x.sum())],
        "embedded": models.read_embeddings(folder / "embeddings").embeddings.tolist(),
        "embedded by hand": x.tolist(),
        "served": served(images=tf.constant(TEST))["embedding"].numpy().tolist(),
        "of the checkpoint": (TEST.reshape(23, 6) / 64 @ kernel + bias).tolist(),
    }


# The loss of a batch on replicas is that on one device: name -> loss and options of `compile`. Losses and optimizers
# that do not know each other share a model, as each model is traced.
SAME = {
    "a loss": (plain, {}),
    "a learning rate": (plain, SLOW),
    "a memory": (remembering, {}),
    "proxies": (over_proxies, {"optimizer": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, epsilon=1e-3)}),
    "sampled proxies, averaged": (
        lambda: over_proxies(num_sampled_classes=3, seed=0),
        {"optimizer": lambda: SGD(0.1, clipvalue=0.05, use_ema=True, ema_momentum=0.5)},
    ),
    "blocks of anchors, regularized and clipped": (
        in_blocks,
        {"regularizer": "l2", "optimizer": lambda: SGD(0.1, clipnorm=0.3)},
    ),
    "micro-batches": (remembering, {"micro_batch_size": 4}),
    "LoRA, gradients clipped together": (plain, {"lora": 2, "optimizer": lambda: SGD(0.1, global_clipnorm=0.3)}),
    "a sum over anchors": (lambda: losses.ContrastiveLoss(negative_margin=4.0, reduction="sum"), SMALL),
    "values of anchors": (lambda: losses.ContrastiveLoss(negative_margin=4.0, reduction=None), SMALL),
    "a weighted sum": (lambda: losses.WeightedSumLoss([plain(), plain()], reduction="sum"), SMALL),
    "a sum of Keras": (lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"), SMALL),
    "a name of Keras": (lambda: "sparse_categorical_crossentropy", SMALL),
    "a function of a scalar": (lambda: scalar, SMALL),
    "a loss of a scalar": (OwnScalar, SMALL),
    "scaled losses": (plain, {"optimizer": lambda: scaled(2.0**10, global_clipnorm=0.3)}),
    "scaled losses that overflow": (plain, {"optimizer": lambda: scaled(2.0**127)}),
}
EVALUATED = {
    "a loss",
    "a memory",
    "proxies",
    "micro-batches",
    "a sum over anchors",
    "values of anchors",
    "a sum of Keras",
}


def halves(loss):
    """The mean of the losses of both halves of a batch; Keras hands functions their labels as floats."""

    def of_halves(labels, x):
        labels = tf.cast(labels, tf.int64)
        return (loss(labels[:8], x[:8]) + loss(labels[8:], x[8:])) / 2

    return of_halves


def pair_model():
    """A siamese model of pairs, the same in every call."""
    keras.utils.set_random_seed(0)
    images = keras.Input((2, 3, 1), dtype="uint8")
    branch = keras.Model(images, keras.layers.Dense(4)(keras.layers.Flatten()(keras.layers.Rescaling(1 / 64)(images))))
    model = models.PairModel(keras.Sequential([keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)]), branch)
    model.compile("sgd", loss=losses.PairHingeLoss())
    return model


def fit_pairs(model):
    """Weights and the last loss after two epochs of pairs."""
    pairs = samplers.input_pairs(SAMPLER.batches(X, LABELS), pairs_per_batch=12)
    history = model.fit(pairs, epochs=2, steps_per_epoch=2, shuffle=False, verbose=0).history
    return {"weights": [weights.tolist() for weights in model.get_weights()], "loss": history["loss"][-1]}


def refused(model):
    """The error of `fit`."""
    try:
        return fit(model).history
    except ValueError as error:
        return str(error)


def main():
    """One line of JSON."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy keyword", DeprecationWarning)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    found = {"whole story": whole_story(strategy, Path(sys.argv[1]))}
    with strategy.scope():
        cases = {f"{name} on replicas": build(make(), **options) for name, (make, options) in SAME.items()}
        cases["keras.Model"] = build(plain(), keras.Model)
    cases |= {
        f"{name} on one device": build(make(), run_eagerly=True, **options) for name, (make, options) in SAME.items()
    }
    cases["halves"] = build(halves(plain()), run_eagerly=True)
    for name, model in cases.items():
        history = fit(model, epochs=2).history
        found[name] = {"weights": [weights.tolist() for weights in model.get_weights()], "loss": history["loss"][-1]}
        if name.split(" on ")[0] in EVALUATED:
            found[name]["val_loss"] = model.evaluate(X[:12], LABELS[:12], verbose=0)
    with strategy.scope():
        pairs = pair_model()
    found |= {"pairs on replicas": fit_pairs(pairs), "pairs on one device": fit_pairs(pair_model())}
    with strategy.scope():
        found["several steps"] = refused(build(plain(), steps_per_execution=2))
        for name in ("gradient_accumulation_steps", "ema_overwrite_frequency"):
            options = {name: 2, "use_ema": name.startswith("ema")}
            found[name] = refused(build(plain(), optimizer=lambda options=options: SGD(0.1, **options)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
