"""What the functions of `tfdml.analysis` refuse: what the error names, and the call."""

import numpy as np
import pytest

from tfdml import analysis, losses, miners
from tfdml.analysis import full_loss
from tfdml.analysis.loss_over_distance import loss_over_distance

LABELS, LOSS = np.array([0, 0, 1, 1, 1, 7, 7, 7]), losses.ContrastiveLoss()
X = np.random.default_rng(3).standard_normal((8, 5))
WITHOUT_DIRECTION = [np.where(np.arange(8)[:, None] == 2, value, X) for value in (0.0, np.nan)]
OF_LOSS = {"active": analysis.active_pairs, "weights": analysis.pair_weights, "full loss": full_loss}
REFUSED = {
    **{
        f"{name} | The order is loss, embeddings, labels": lambda f=f: f(LOSS, LABELS, X) for name, f in OF_LOSS.items()
    },
    "The order is losses, embeddings, labels": lambda: analysis.plot_pair_weights({"one": LOSS}, LABELS, X),
    "The order is embeddings, labels": lambda: analysis.pair_histogram(LABELS, X),
    **{
        f"{name} {number} | embedding of norm 0, NaN or infinity": lambda f=f, x=x: f(LOSS, x, LABELS)
        for number, x in enumerate(WITHOUT_DIRECTION)
        for name, f in [("active", analysis.active_pairs), ("weights", analysis.pair_weights)]
    },
    "histogram | embedding of norm 0, NaN or infinity": lambda: analysis.pair_histogram(WITHOUT_DIRECTION[1], LABELS),
    "a loss with miner=": lambda: full_loss(losses.MultiSimilarityLoss(miner=miners.ValidTriplets()), X, LABELS),
    "bins=0, expected a whole number of at least 1": lambda: analysis.pair_histogram(X, LABELS, bins=0),
    "3 labels": lambda: analysis.pair_histogram(X, LABELS[:3]),
    "no histograms, expected a dict": lambda: analysis.plot_pair_histogram({}),
    "dimension 2, expected 3 or more": lambda: analysis.plot_pair_histogram(
        {"x": analysis.pair_histogram(X, LABELS)}, dim=2
    ),
    "weights | no losses": lambda: analysis.plot_pair_weights({}, X, LABELS),
    "expected a loss over pairs": lambda: loss_over_distance(lambda d: d, [0.5]),
    "numbers in [0, 2]": lambda: loss_over_distance(losses.MarginLoss(), [2.5]),
    "distances of shape (0,)": lambda: loss_over_distance(losses.MarginLoss(), []),
    "curves | no losses": lambda: analysis.plot_loss_over_distance({}),
    "distances=[0.5 2.1], expected distances on the unit sphere, in [0, 2]": lambda: analysis.gradient_variance(
        [0.5, 2.1]
    ),
    "distances=nan": lambda: analysis.gradient_variance(np.nan),
    "noise=0.0, expected standard deviations above 0": lambda: analysis.gradient_variance(1.0, noise=0.0),
    "noise=": lambda: analysis.gradient_variance(1.0, noise=[0.1, np.inf]),
    "dim=2, expected a whole number of at least 3": lambda: analysis.gradient_variance(1.0, dim=2),
}


@pytest.mark.backends
@pytest.mark.parametrize("received", REFUSED)
def test_what_cannot_be_analyzed_is_refused_and_named(received):
    with pytest.raises(ValueError, match="Received ") as raised:
        REFUSED[received]()
    assert received.rpartition(" | ")[2] in str(raised.value)
