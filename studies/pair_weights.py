"""The weight that each loss gives to the pairs of one batch: the figure of docs/analysis.md.

python -m studies.pair_weights    # draws docs/images/pair-weights.png
"""

import numpy as np

from studies import pages
from tfdml import analysis, losses

LOSSES = {
    "cosine contrastive": losses.CosineContrastiveLoss(),
    "triplet": losses.TripletLoss(distance="cosine"),
    "generalized lifted": losses.GeneralizedLiftedLoss(distance="cosine"),
    "binomial deviance": losses.BinomialDevianceLoss(),
    "RAW": losses.RAWLoss(),
    "NT-Xent": losses.NTXentLoss(),
    "circle": losses.CircleLoss(),
    "smooth AP": losses.SmoothAPLoss(temperature=0.1),
}


def batch():
    """12 classes of 4 vectors of norm 1, scattered around their centers, with overlaps."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 4)
    return rng.standard_normal((12, 16))[labels] + 0.9 * rng.standard_normal((48, 16)), labels


def draw(path):
    """One panel per loss."""
    analysis.plot_pair_weights(LOSSES, *batch()).savefig(path, dpi=90)


if __name__ == "__main__":
    draw(pages.IMAGES / "pair-weights.png")
