"""A loss as weights of pairs: how hard it pulls each positive and pushes each negative."""

import contextlib

import keras
import numpy as np
from keras import ops

from tfdml.pairs import all_pairs

# Added to the diagonal, so that the similarities of any embeddings have a Cholesky factor.
_JITTER = 1e-6


def pair_weights(loss, embeddings, labels):
    """The weight that a loss gives to each pair of a batch.

    For fixed weights w, the loss

    F = sum_i (sum_{n negative to i} w_in s_in - sum_{p positive to i} w_ip s_ip)

    has the gradient of `loss` at these embeddings: w_ij = dL / ds_ij for negatives and -dL / ds_ij for positives, where
    s_ij and s_ji share the derivative equally.

    Args:
        loss: any loss that depends on embeddings through their inner products: a loss of `tfdml.losses` or
            `tfdml.addons`, or another function of labels and embeddings that returns a scalar and computes in the type
            of its embeddings, float64.
        embeddings: `(batch, dim)` array. It is scaled to norm 1, so that similarities are cosines.
        labels: what the loss takes. A `match` of the loss says which pairs are positive.

    Returns:
        `(batch, batch)` float64 array, symmetric, 0 on the diagonal. Weights of positives that are pulled and of
        negatives that are pushed are above 0.

    Raises:
        ValueError: an embedding of norm 0 or not finite, or a Keras backend other than TensorFlow and JAX.

    The derivatives by similarities are taken through embeddings made of them, by a Cholesky factor: time grows with the
    cube of the batch.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, theorem 3.1.
    """
    x = np.asarray(embeddings, dtype="float64")
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    if not (np.isfinite(norms).all() and norms.all()):
        raise ValueError("Received an embedding of norm 0, NaN or infinity, expected vectors that have a direction.")
    similarities = (x / norms) @ (x / norms).T
    with _float64():
        slopes = _gradient(lambda s: loss(labels, _embeddings_of(s)), similarities)
        positive = ops.convert_to_numpy(all_pairs(labels, x, match=getattr(loss, "match", None)).positive)
    np.fill_diagonal(slopes, 0.0)
    return np.where(positive > 0, -1.0, 1.0) * (slopes + slopes.T) / 2


def plot_pair_weights(losses, embeddings, labels):
    """Draw the weight of each pair over its cosine similarity, one panel a loss.

    Args:
        losses: dict of title to loss.
        embeddings, labels: a batch, as in `pair_weights`.

    Returns:
        A matplotlib figure; `figure.savefig("weights.png")` writes it. Weights are shown as shares of the largest.

    Raises:
        ValueError: no losses.
        ImportError: matplotlib is not there.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, figure 1.
    """
    if not losses:
        raise ValueError("Received no losses, expected a dict of title to loss.")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot_pair_weights needs matplotlib: pip install matplotlib.") from error
    x = np.asarray(embeddings, dtype="float64")
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    upper = np.triu_indices(len(x), k=1)
    columns = min(len(losses), 4)
    rows = -(-len(losses) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.8 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for panel, (title, loss) in zip(panels, losses.items(), strict=False):
        weights = pair_weights(loss, x, labels)
        with _float64():
            positive = ops.convert_to_numpy(all_pairs(labels, x, match=getattr(loss, "match", None)).positive)
        share, is_positive = weights[upper] / max(np.abs(weights).max(), 1e-300), positive[upper] > 0
        similarity = (x @ x.T)[upper]
        for kind, which, marker, color in (
            ("positive", is_positive, "o", "tab:green"),
            ("negative", ~is_positive, "x", "tab:blue"),
        ):
            panel.plot(similarity[which], share[which], marker, color=color, markersize=3, label=kind)
        panel.set_title(title, fontsize=10)
    for panel in panels[len(losses) :]:
        panel.remove()
    panels[0].legend(fontsize=8)
    figure.supxlabel("cosine similarity")
    figure.supylabel("weight of the pair")
    return figure


def _embeddings_of(similarities):
    """Embeddings with these inner products, as a function that can be differentiated."""
    identity = ops.eye(ops.shape(similarities)[0], dtype=similarities.dtype)
    return ops.cholesky((similarities + _JITTER * identity) / (1.0 + _JITTER))


def _float64():
    """JAX computes in float64 only where it is told to."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.enable_x64(True)
    return contextlib.nullcontext()


def _gradient(function, x):
    """d function(x) / dx of a scalar function, as an array."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return np.array(jax.grad(function)(ops.convert_to_tensor(x)))
    if backend == "tensorflow":
        import tensorflow as tf

        x = tf.convert_to_tensor(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return tape.gradient(value, x).numpy()
    raise ValueError(f"Received the Keras backend {backend!r}, expected tensorflow or jax: a gradient is needed.")
