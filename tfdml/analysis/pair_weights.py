"""Pair weights of a loss: how strongly it pulls each positive and pushes each negative."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from tfdml._core.backends import vector_jacobian
from tfdml._core.checks import require
from tfdml._core.optional import new_panels
from tfdml.analysis._embeddings import l2_normalize, require_matrix
from tfdml.layers.base import References, unchanged
from tfdml.losses.reductions import per_anchor
from tfdml.pairs import all_pairs
from tfdml.typing import Labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Added to the diagonal so that the similarities of any embeddings have a Cholesky factor.
_JITTER = 1e-6


def pair_weights(loss: Callable[..., Any], embeddings: npt.ArrayLike, labels: Labels) -> np.ndarray:
    """The weight that a loss gives to each pair of a batch.

    For fixed weights w, the loss

    F = sum_i (sum_{n negative to i} w_in s_in - sum_{p positive to i} w_ip s_ip)

    has the gradient of `loss` at these embeddings: w_ij = dL / ds_ij for negatives and -dL / ds_ij for positives, where
    s_ij and s_ji share the derivative equally.

    Example: the loss is the mean over six ordered pairs of -s of positives and s of negatives: all weights are 1/6.

        >>> x, labels = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), np.array([0, 0, 1])
        >>> loss = tfdml.losses.CosineContrastiveLoss(threshold=-1.0)
        >>> tfdml.analysis.pair_weights(loss, x, labels).round(4)
        array([[0.    , 0.1667, 0.1667],
               [0.1667, 0.    , 0.1667],
               [0.1667, 0.1667, 0.    ]])

    Args:
        loss: any loss that depends on embeddings through their inner products: a loss of `tfdml.losses` or
            `tfdml.addons`, or another function of labels and embeddings that returns a scalar and computes in the dtype
            of its embeddings, float64. A loss over proxies or a memory takes the batch itself as references.
        embeddings: `(batch, dim)` array, scaled to norm 1 here, so that similarities are cosines.
        labels: labels of the form that the loss takes. A `match` of the loss decides which pairs are positive.

    Returns:
        `(batch, batch)` float64 array, symmetric, 0 on the diagonal. A weight above 0 pulls a positive and pushes a
        negative.

    Raises:
        ValueError: an embedding of norm 0, a loss that is not a function of inner products, such as `MatryoshkaLoss`,
            or another Keras backend than TensorFlow and JAX.

    It differentiates the loss by embeddings with one dimension per row, a Cholesky factor of the similarities, because
    such embeddings determine the derivatives by similarities. Time grows with the cube of the batch size. The loss's
    miner and its selector of negatives see the normalized `embeddings` instead, because some of them depend on the
    number of dimensions. Their selection is held constant.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, theorem 3.1.
    """
    require_matrix(embeddings, "loss, embeddings, labels")
    x = l2_normalize(embeddings)
    factor = np.linalg.cholesky((x @ x.T + _JITTER * np.eye(len(x))) / (1.0 + _JITTER))  # x with other dimensions
    with _float64():
        function = _with_fixed_selection(loss, x, labels)
        _require_inner_products(loss, function, x, factor)
        gradient = _gradient(function, factor)
    # The gradient by embeddings V is (D + D^T) V, with D the derivatives by s = V V^T.
    derivatives = np.linalg.solve(factor.T, gradient.T)
    np.fill_diagonal(derivatives, 0.0)
    return np.where(positives_of(loss, x, labels), -1.0, 1.0) * (derivatives + derivatives.T) / 4


def plot_pair_weights(losses: Mapping[str, Callable[..., Any]], embeddings: npt.ArrayLike, labels: Labels) -> Figure:
    """Draw the weight of each pair over its cosine similarity, one panel per loss.

    Example:

        >>> x, labels = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), np.array([0, 0, 1])
        >>> losses = {"contrastive": tfdml.losses.ContrastiveLoss(), "NCA": tfdml.losses.NCALoss()}
        >>> figure = tfdml.analysis.plot_pair_weights(losses, x, labels)
        >>> figure.savefig("weights.png")
        >>> [axes.get_title() for axes in figure.axes]
        ['contrastive', 'NCA']

    Args:
        losses: dict of title to loss.
        embeddings, labels: a batch, as in `pair_weights`.

    Returns:
        A matplotlib figure, with weights as shares of the largest.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, figure 1.
    """
    require(bool(losses), "no losses", "a dict of title to loss")
    require_matrix(embeddings, "losses, embeddings, labels")
    x = l2_normalize(embeddings)
    figure, panels = new_panels("plot_pair_weights", list(losses), (3.2, 2.8), sharex=True, sharey=True)
    for panel, loss in zip(panels, losses.values(), strict=True):
        _plot_weights(panel, loss, x, labels)
    panels[0].legend(fontsize=8)
    figure.supxlabel("cosine similarity")
    figure.supylabel("weight of the pair")
    return figure


def positives_of(loss: Callable[..., Any], embeddings: npt.ArrayLike, labels: Labels) -> np.ndarray:
    """Whether each pair of a batch is positive by the labels and the `match` of the loss: `(batch, batch)` booleans."""
    with _float64():
        pairs = all_pairs(labels, embeddings, match=getattr(loss, "match", None))
        return ops.convert_to_numpy(pairs.positive) > 0


def _plot_weights(panel, loss, x, labels):
    weights = pair_weights(loss, x, labels)
    upper = np.triu_indices(len(x), k=1)
    share = weights[upper] / max(np.abs(weights).max(), 1e-300)
    similarity, positive = (x @ x.T)[upper], positives_of(loss, x, labels)[upper]
    for kind, members, marker, color in (
        ("positive", positive, "o", "tab:green"),
        ("negative", ~positive, "x", "tab:blue"),
    ):
        panel.plot(similarity[members], share[members], marker, color=color, markersize=3, label=kind)


def _require_inner_products(loss, function, x, factor):
    """Raise a ValueError for a loss with different values of two batches with the same inner products."""
    values = []
    for embeddings in (x, factor):
        with unchanged(getattr(loss, "layers", [])):  # the same random numbers for both
            values.append(float(ops.convert_to_numpy(function(ops.convert_to_tensor(embeddings)))))
    if not np.allclose(*values, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise ValueError(
            f"Received a loss of {values[0]:.6g} and {values[1]:.6g} for embeddings with the same inner products, "
            "expected a function of inner products. Analyze the base of a loss over some columns."
        )


def _with_fixed_selection(loss, embeddings, labels):
    """The loss as a function of embeddings v, with the pairs and negatives that it selects at `embeddings`."""
    if not hasattr(loss, "reweight"):
        return lambda v: loss(labels, v)
    has_references = any(isinstance(layer, References) for layer in loss.layers)  # proxies or a memory
    pair = functools.partial(all_pairs, match=loss.match) if has_references else loss.pair
    settings = loss.settings
    selected = loss.reweight(pair(labels, embeddings))
    if settings.get("negatives") is not None:
        select = settings["negatives"]
        settings = {**settings, "negatives": lambda pairs, d: select(_with_embeddings(selected, pairs), d)}

    def value(v):
        pairs = _with_embeddings(pair(labels, v), selected)
        return loss.reduce(per_anchor(loss.function(pairs, **settings), pairs))

    return value


def _with_embeddings(source, pairs):
    return pairs._replace(anchors=source.anchors, references=source.references)


def _float64():
    """A context with float64: JAX has to enable it."""
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
    if backend == "torch":
        (gradient,) = vector_jacobian(function, [ops.convert_to_tensor(x)], ops.ones(()))
        return ops.convert_to_numpy(gradient)
    if backend == "tensorflow":
        import tensorflow as tf

        x = tf.convert_to_tensor(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return tape.gradient(value, x).numpy()
    raise ValueError(
        f"Received the Keras backend {backend!r}, expected tensorflow, jax or torch, which compute gradients."
    )
