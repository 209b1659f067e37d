"""A loss as weights of pairs: how hard it pulls each positive and pushes each negative."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from tfdml.analysis._figure import new_figure
from tfdml.pairs import all_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Added to the diagonal, so that the similarities of any embeddings have a Cholesky factor.
_JITTER = 1e-6


def pair_weights(loss: Callable[..., Any], embeddings: npt.ArrayLike, labels: npt.ArrayLike) -> np.ndarray:
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

    The derivatives by similarities come from those by embeddings of as many dimensions as rows, which a Cholesky factor
    makes of the similarities: time grows with the cube of the batch. The loss's miner and its selector of negatives see
    `embeddings`, scaled, as some go by the number of dimensions; no derivative is taken through what they choose.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, theorem 3.1.
    """
    x = directions(embeddings)
    factor = _embeddings_of(x @ x.T)
    with _float64():
        gradient = _gradient(_choosing_by(loss, labels, x), factor)
    # The gradient by embeddings V is (D + D^T) V, with D the derivatives by s = V V^T.
    slopes = np.linalg.solve(factor.T, gradient.T)
    np.fill_diagonal(slopes, 0.0)
    return np.where(positives_of(loss, x, labels), -1.0, 1.0) * (slopes + slopes.T) / 4


def plot_pair_weights(
    losses: Mapping[str, Callable[..., Any]], embeddings: npt.ArrayLike, labels: npt.ArrayLike
) -> Figure:
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
    x = directions(embeddings)
    upper = np.triu_indices(len(x), k=1)
    columns = min(len(losses), 4)
    rows = -(-len(losses) // columns)
    figure = new_figure("plot_pair_weights", figsize=(3.2 * columns, 2.8 * rows))
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for panel, (title, loss) in zip(panels, losses.items(), strict=False):
        weights = pair_weights(loss, x, labels)
        share = weights[upper] / max(np.abs(weights).max(), 1e-300)
        is_positive = positives_of(loss, x, labels)[upper]
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


def directions(embeddings: npt.ArrayLike) -> np.ndarray:
    """Embeddings scaled to norm 1, in float64.

    Raises:
        ValueError: an embedding of norm 0 or not finite.
    """
    x = np.asarray(embeddings, dtype="float64")
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    if not (np.isfinite(norms).all() and norms.all()):
        raise ValueError("Received an embedding of norm 0, NaN or infinity, expected vectors that have a direction.")
    return x / norms


def positives_of(loss: Callable[..., Any], embeddings: npt.ArrayLike, labels: npt.ArrayLike) -> np.ndarray:
    """Which pairs of a batch are positive by the labels and a `match` of the loss: `(batch, batch)` booleans."""
    with _float64():
        pairs = all_pairs(labels, embeddings, match=getattr(loss, "match", None))
        return ops.convert_to_numpy(pairs.positive) > 0


def _choosing_by(loss, labels, embeddings):
    """The loss as a function of embeddings v, whose miner and selector of negatives see `embeddings` instead of v."""
    if not hasattr(loss, "reweight"):
        return lambda v: loss(labels, v)
    chosen, settings = loss.reweight(loss.pair(labels, embeddings)), loss.settings
    if settings.get("negatives") is not None:
        choose = settings["negatives"]
        settings = {**settings, "negatives": lambda pairs, d: choose(_with_embeddings(chosen, pairs), d)}

    def value(v):
        pairs = _with_embeddings(loss.pair(labels, v), chosen)
        return loss.reduce(loss.function(pairs, **settings))

    return value


def _with_embeddings(source, pairs):
    """These pairs, with the embeddings of others."""
    return pairs._replace(anchors=source.anchors, references=source.references)


def _embeddings_of(similarities):
    """As many dimensions as rows, with these inner products."""
    return np.linalg.cholesky((similarities + _JITTER * np.eye(len(similarities))) / (1.0 + _JITTER))


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
