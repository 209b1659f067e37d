"""Milliseconds and MiB of a training step of each method, value and gradient alone: 128 embeddings of 64 dimensions.

On JAX, compiled, one device. MiB are those that the compiled program has beside its inputs and outputs.
"""

import os
import statistics
import time

import numpy as np

import tfdml
from studies import pages
from studies.leaderboard import outputs
from studies.leaderboard.methods import FAMILIES, IN_BATCH, METHODS, PER_CLASS

FILE = pages.RESULTS / "leaderboard" / "costs.csv"
REPEATS = 51
CLASSES = 676  # of the training part of glyphs


def rows():
    """One row per method, with its first settings.

    Raises:
        ValueError: the backend of Keras is not JAX.
    """
    import keras

    if keras.backend.backend() != "jax":
        raise ValueError(
            f"Received the backend {keras.backend.backend()}, expected jax, whose compiler says what memory a step "
            "takes. Set KERAS_BACKEND=jax."
        )
    about = tfdml.environment()
    return [
        {"family": family, "loss": loss, **cost(loss), **about}
        for family, losses in FAMILIES.items()
        for loss in losses
    ]


def cost(loss):
    """The median milliseconds of value and gradient of a method, and its MiB."""
    import jax

    method = METHODS[loss]
    labels = np.arange(IN_BATCH) // (method.per_class or PER_CLASS)
    training_labels = np.repeat(np.arange(CLASSES), 16)
    function = method.make(training_labels, **method.trials((1, 2))[0][1])
    x = np.random.default_rng(0).standard_normal((IN_BATCH, 64), dtype=np.float32)
    x = x if method.outputs is outputs.vectors else x / np.linalg.norm(x, axis=1, keepdims=True)
    for layer in getattr(function, "layers", ()):
        if not layer.built:
            layer.build((None,), (None, x.shape[1]))
    compiled = jax.jit(jax.value_and_grad(lambda x: function(labels, x))).lower(x).compile()
    jax.block_until_ready(compiled(x))
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        jax.block_until_ready(compiled(x))
        seconds.append(time.perf_counter() - begin)
    memory = compiled.memory_analysis().temp_size_in_bytes
    return {"ms": round(1000 * statistics.median(seconds), 3), "mib": round(memory / 2**20, 2), "cores": os.cpu_count()}
