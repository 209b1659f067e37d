"""The reliability diagram of probabilities."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfdml._core.optional import new_figure
from tfdml.metrics import reliability
from tfdml.typing import Labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability_diagram(
    probabilities: npt.ArrayLike, same: npt.ArrayLike, *, classes: Labels | None = None
) -> "Figure":
    """Draw the share that match over the mean probability, in ten bins of as many pairs, with 95% intervals.

    Points on the diagonal are calibrated. The title has the expected calibration error.

    Example:

        >>> p = np.linspace(0, 1, 200)
        >>> figure = tfdml.visualize.reliability_diagram(p, np.random.default_rng(0).random(200) < p)
        >>> figure.axes[0].get_xlabel()
        'probability'

    Args:
        probabilities, same, classes: as in `tfdml.metrics.reliability`.
    """
    bins = reliability(probabilities, same, classes=classes)
    figure = new_figure("reliability_diagram", figsize=(4, 4))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    bars = np.maximum(0, [bins.share - bins.low, bins.high - bins.share])
    axes.errorbar(bins.probability, bins.share, yerr=np.nan_to_num(bars), fmt="o", markersize=4, capsize=2)
    axes.set(xlabel="probability", ylabel="share that match", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_title(f"expected calibration error {bins.ece:.3f}", fontsize=10)
    return figure
