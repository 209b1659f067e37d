"""The loss of a pair over its distance: the second figure of docs/analysis.md.

python -m studies.loss_over_distance    # draws docs/images/loss-over-distance.png
"""

from studies import pages
from tfdml import analysis, losses

LOSSES = {
    "contrastive": losses.ContrastiveLoss(),
    "triplet, squared": losses.TripletLoss(),
    "triplet, euclidean": losses.TripletLoss(distance="euclidean"),
    "margin": losses.MarginLoss(),
    "binomial deviance": losses.BinomialDevianceLoss(beta=10.0),
    "multi-similarity": losses.MultiSimilarityLoss(beta=10.0),
    "NT-Xent": losses.NTXentLoss(temperature=0.2),
    "circle": losses.CircleLoss(scale=8.0),
}


def draw(path):
    """One panel per loss."""
    analysis.plot_loss_over_distance(LOSSES).savefig(path, dpi=80)


if __name__ == "__main__":
    draw(pages.IMAGES / "loss-over-distance.png")
