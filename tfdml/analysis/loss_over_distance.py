"""The loss of a positive and of a negative pair over their distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from keras import ops

from tfdml._core.checks import require
from tfdml._core.optional import new_panels
from tfdml.losses import PairLoss
from tfdml.pairs import Pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class LossOverDistance(NamedTuple):
    """The result of `loss_over_distance`."""

    distances: np.ndarray
    positive: np.ndarray
    negative: np.ndarray


def loss_over_distance(loss: PairLoss, distances: npt.ArrayLike) -> LossOverDistance:
    """The losses of a positive and of a negative pair at `distances`, `(points,)`, see `plot_loss_over_distance`."""
    require(isinstance(loss, PairLoss), f"loss={loss!r}", "a loss over pairs, such as tfdml.losses.ContrastiveLoss()")
    d = np.asarray(distances, "float64")
    is_valid = d.ndim == 1 and d.size > 0 and bool(((d >= 0) & (d <= 2)).all())
    require(is_valid, f"distances of shape {d.shape}", "numbers in [0, 2], distances of unit vectors")
    if hasattr(loss, "pair_losses"):
        signs = (np.full((len(d), 1), sign, "float32") for sign in (1, 0))
        values = [ops.convert_to_numpy(loss.pair_losses(_pairs(d[:, None], sign)))[:, 0] for sign in signs]
        return LossOverDistance(d, *values)
    other = np.ones_like(d)
    return LossOverDistance(d, _of_anchors(loss, d, other), _of_anchors(loss, other, d))


def plot_loss_over_distance(losses: Mapping[str, PairLoss]) -> Figure:
    """Draw the loss of a positive and of a negative pair of unit vectors over their distance, one panel per loss.

    A loss over independent pairs, with `pair_losses`, has a value for each pair. Any other loss is the loss of an
    anchor with one positive and one negative: one of them at the distance in question, the other one at distance 1.

    Example:

        >>> losses = {"contrastive": tfdml.losses.ContrastiveLoss(), "triplet": tfdml.losses.TripletLoss()}
        >>> figure = tfdml.analysis.plot_loss_over_distance(losses)
        >>> figure.savefig("losses.png")
        >>> [axes.get_title() for axes in figure.axes]
        ['contrastive', 'triplet']

    Args:
        losses: dict of title to a loss over pairs, without its miner and pairing.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, figure 4, whose
    triplet losses have the other pair at a fixed distance.
    """
    require(bool(losses), "no losses", "a dict of title to loss")
    curves = {title: loss_over_distance(loss, np.linspace(0.0, 2.0, 81)) for title, loss in losses.items()}
    figure, panels = new_panels("plot_loss_over_distance", list(curves), (2.9, 2.6), sharex=True)
    for panel, curve in zip(panels, curves.values(), strict=True):
        panel.plot(curve.distances, curve.positive, color="tab:blue", label="positive pair")
        panel.plot(curve.distances, curve.negative, "--", color="tab:orange", label="negative pair")
    panels[0].legend(fontsize=8)
    figure.supxlabel("distance")
    figure.supylabel("loss")
    return figure


def _of_anchors(loss, to_positive, to_negative):
    """The value of each anchor alone, because losses may divide by a number of the batch."""
    signs = np.array([[1.0, 0.0]], "float32")
    both = np.stack([to_positive, to_negative], axis=1)
    return np.array([float(loss.values(_pairs(row[None], signs))[0]) for row in both])


def _pairs(d, positive):
    """Pairs of unit vectors in the plane at the distances `(anchors, references)`, on either side of their anchor."""
    angle = 2.0 * np.arcsin(d / 2.0) * np.where(positive > 0, 1.0, -1.0)
    references = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    anchors = np.tile([1.0, 0.0], (len(d), 1))
    labels = np.where(positive > 0, 0, 1)
    numbers = (anchors, references, positive, 1.0 - positive)
    tensors = [ops.convert_to_tensor(x.astype("float32")) for x in numbers]
    return Pairs(*tensors[:2], np.zeros(len(d), "int32"), labels.astype("int32"), *tensors[2:])
