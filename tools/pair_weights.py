"""Draws docs/images/pair-weights.png: the weight that each loss gives to the pairs of one batch.

python tools/pair_weights.py
"""

from pathlib import Path

import numpy as np

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
    return labels, rng.standard_normal((12, 16))[labels] + 0.9 * rng.standard_normal((48, 16))


def main():
    """Write the picture."""
    figure = analysis.plot_pair_weights(LOSSES, *batch())
    path = Path(__file__).parents[1] / "docs" / "images" / "pair-weights.png"
    figure.savefig(path, dpi=90)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
