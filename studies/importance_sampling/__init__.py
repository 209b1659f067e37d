"""Importance sampling: what Hong, Park and Kim claim. The page is docs/importance-sampling.md."""

from studies import restored
from studies.importance_sampling import (
    all_pairs,
    batch_designs,
    class_sizes,
    exponent,
    negatives,
    setting,
    train_loss,
    trained_pairs,
    trained_start,
    whole_network,
)

PAGE = "docs/importance-sampling.md"
FIGURES = "docs/images/importance-{}.png"
STUDIES = {
    "negatives": negatives,
    "batch_designs": batch_designs,
    "all_pairs": all_pairs,
    "exponent": exponent,
    "class_sizes": class_sizes,
    "train_loss": train_loss,
    "trained_start": trained_start,
    "trained_pairs": trained_pairs.OF_FEATURES,
    "whole_network": whole_network,
    "whole_pairs": trained_pairs.OF_WHOLE,
}
options, result_of = setting.options, restored.result_of
