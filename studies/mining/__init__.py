"""Mining, sampling and robust weights: what three papers claim. The page is docs/mining.md."""

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

PAGE = "docs/mining.md"
FIGURES = "docs/images/mining-{}.png"
STUDIES = {
    "samplings": samplings,
    "batch_sizes": batch_sizes,
    "boundaries": boundaries,
    "weights": weights,
    "temperatures": temperatures,
    "imbalance": imbalance,
    "top_k": top_k,
    "distances": distances,
}
options = setting.options
