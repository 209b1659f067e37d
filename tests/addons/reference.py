"""What TensorFlow Addons itself computes, in `reference.npz`, for all of `CASES`.

`TF_USE_LEGACY_KERAS=1 python -m tests.addons.reference` writes it: Addons needs the Keras 2 that this sets.
"""

import inspect
import json
import sys
import warnings
from pathlib import Path

import numpy as np

REFERENCE = Path(__file__).with_name("reference.npz")

CLASS_OF = {
    "triplet_semihard_loss": "TripletSemiHardLoss",
    "triplet_hard_loss": "TripletHardLoss",
    "lifted_struct_loss": "LiftedStructLoss",
    "npairs_loss": "NpairsLoss",
    "npairs_multilabel_loss": "NpairsMultilabelLoss",
    "contrastive_loss": "ContrastiveLoss",
}
SETTINGS = {
    "triplet_semihard_loss": [
        *({"distance_metric": metric} for metric in ("L2", "squared-L2", "angular", "manhattan", "dot")),
        {"margin": -0.1},
    ],
    "triplet_hard_loss": [
        *({"distance_metric": metric} for metric in ("L2", "squared-L2", "angular", "manhattan", "dot")),
        {"margin": 0.1},
        {"soft": True},
        {"soft": True, "distance_metric": "angular"},
    ],
    "lifted_struct_loss": [{}, {"margin": 0.3}, {"margin": 4.0}],
    "npairs_loss": [{}],
    "npairs_multilabel_loss": [{}],
    "contrastive_loss": [{}, {"margin": 0.5}],
}
LABELS = {  # mostly of one size: JAX compiles for each size
    "three classes": [0, 0, 1, 1, 1, 7, 7, 7],
    "one of its own": [3, 3, 3, 9, 5, 5, 6, 6],
    "large": np.repeat(np.arange(9), [1, 2, 3, 4, 5, 6, 2, 1, 8]).tolist(),
    "far from the origin": [0, 0, 0, 1, 1, 2, 2, 3],
    "floats": [0.5, 0.5, 1.5, 1.5, 1.25, 1.25, 1.25, 1.25],
    "column": [[2], [1], [1], [2], [2], [0], [0], [0]],
    "duplicates": [0, 0, 0, 1, 1, 2, 2, 2],
    "one class": [4, 4, 4, 4, 4, 4, 4, 4],
    "no class twice": [1, 2, 3, 4, 5, 6, 7, 8],
    "one row": [5],
    "all equal": [0, 0, 1, 1, 2, 2, 2, 2],
}


def embeddings(name):
    """`(batch, 5)` floats; "duplicates" has equal rows within classes, and a row near the middle in two classes."""
    x = np.random.default_rng(len(name)).standard_normal((len(LABELS[name]), 5))
    if name == "duplicates":
        x[1] = x.mean(axis=0)
        x = np.round(64 * x)[[0, 0, 1, 2, 2, 3, 4, 1]] / 64  # so few digits that Addons has them exactly at distance 0
    if name == "far from the origin":
        x += 8
    if name == "all equal":
        x = np.ones_like(x)
    return x.astype("float32")


def batch(function, name):
    """`y_true` and `y_pred` as `function` takes them."""
    labels, x = np.array(LABELS[name]), embeddings(name)
    rng = np.random.default_rng(1)
    if function == "contrastive_loss":
        return labels.ravel().astype("int64") % 2, np.abs(x[:, 0])
    if function == "npairs_multilabel_loss":
        has_label = rng.random((len(labels), 6)) < 0.3
        has_label[:, 0] |= ~has_label.any(axis=1)
        if name == "no class twice":
            has_label[1] = False
        return has_label.astype("int64"), x @ rng.standard_normal((5, len(x))).astype("float32")
    if function == "npairs_loss":
        return labels.ravel(), x @ rng.standard_normal((5, len(x))).astype("float32")
    return labels, x


# The first settings with every batch, the others with three.
CASES = [
    (function, name, settings)
    for function in SETTINGS
    for place, settings in enumerate(SETTINGS[function])
    for name in (LABELS if place == 0 else ("one of its own", "duplicates", "one class"))
]


def key(function, name, settings):
    return f"{function} {name} {json.dumps(settings)}"


def parameters(function):
    """Names and defaults of positional arguments."""
    return [
        [name, None if parameter.default is parameter.empty else parameter.default]
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]


def import_addons():
    from tf_keras.src import engine
    from tf_keras.src.engine import keras_tensor

    sys.modules["keras.src.engine"] = engine  # where Addons looks for them
    sys.modules["keras.src.engine.keras_tensor"] = keras_tensor
    warnings.simplefilter("ignore")  # its end of life, and its range of versions
    import tensorflow_addons

    return tensorflow_addons.losses


def main():
    """Write what Addons computes: all arrays one after another, and their shapes by name."""
    losses = import_addons()
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)  # tracing each of them takes longer
    metrics = {
        "manhattan": lambda x: tf.reduce_sum(tf.abs(x[:, None] - x), axis=2),
        "dot": lambda x: tf.matmul(x, x, transpose_b=True),
    }
    results = {}
    for function, name, settings in CASES:
        y_true, y_pred = map(tf.constant, batch(function, name))
        metric = {k: metrics.get(v, v) for k, v in settings.items() if k == "distance_metric"}
        with tf.GradientTape() as tape:
            tape.watch(y_pred)
            value = getattr(losses, function)(y_true, y_pred, **{**settings, **metric})
        results[key(function, name, settings)] = value
        results["slope " + key(function, name, settings)] = tape.gradient(value, y_pred)
        if name == "large":
            results["class " + key(function, name, settings)] = getattr(losses, CLASS_OF[function])(
                **{**settings, **metric}
            )(y_true, y_pred)
    signatures = {name: parameters(getattr(losses, name).python_function) for name in CLASS_OF}
    signatures |= {name: parameters(getattr(losses, name)) for name in CLASS_OF.values()}
    shapes = json.dumps({name: list(array.shape) for name, array in results.items()})
    flat = np.concatenate([np.ravel(array) for array in results.values()])
    np.savez_compressed(REFERENCE, signatures=json.dumps(signatures), shapes=shapes, numbers=flat)


def read():
    """Arrays by name, and the arguments of functions and classes as `signatures`."""
    with np.load(REFERENCE) as file:
        shapes, signatures = (json.loads(str(file[name])) for name in ("shapes", "signatures"))
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])
        arrays = np.split(file["numbers"], ends[:-1])
    named = zip(shapes.items(), arrays, strict=True)
    return {"signatures": signatures, **{name: array.reshape(shape) for (name, shape), array in named}}


if __name__ == "__main__":
    main()
