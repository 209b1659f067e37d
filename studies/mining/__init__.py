"""Mining, sampling and robust weights: what three papers claim. The page is docs/mining.md."""

from studies import restored
from studies.mining import (
    batch_sizes,
    boundaries,
    distances,
    imbalance,
    samplings,
    setting,
    temperatures,
    top_k,
    weights,
)
from studies.mining.robust import features, values
from studies.mining.robust import losses as robust_losses

PAGE = "docs/mining.md"
FIGURES = "docs/images/mining-{}.png"
STUDIES = {
    "samplings": samplings,
    "batch_sizes": batch_sizes,
    "boundaries": boundaries,
    "boundary_ranges": boundaries.Ranges(),
    "weights": weights,
    "temperatures": temperatures.TEMPERATURES,
    "zero_losses": temperatures.ZERO_LOSSES,
    "robust_losses": robust_losses,
    "imbalance": imbalance,
    "equal_steps": imbalance.EqualSteps(),
    "dimensions": imbalance.Dimensions(),
    "top_k": top_k,
    "robust_values": values,
    "robust_features": features,
    "distances": distances,
}
options, result_of = setting.options, restored.result_of
