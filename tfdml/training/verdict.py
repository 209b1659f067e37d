"""The sentence of a run about itself: whether training helped."""

import numpy as np

from tfdml import metrics
from tfdml.evaluation import Evaluation
from tfdml.metrics.statistics.confidence import least_classes

_METRIC = "map@r"


def verdict(trained: Evaluation, frozen: Evaluation, best_epoch: int) -> str:
    """One sentence on whether training helped, did not, or cannot be told; `best_epoch` 0 is before training."""
    if best_epoch == 0:
        return (
            "Training did not help: on the validation part, no epoch reached the MAP@R of the network before training, "
            "which is the one that is exported."
        )
    difference = metrics.paired_comparison(
        trained.per_query.values[_METRIC], frozen.per_query.values[_METRIC], trained.per_query.labels, seed=trained.seed
    )
    if np.isnan(difference.low):
        reason = f"an interval needs {least_classes()} classes or more, and the queries have {difference.classes}"
        return f"It cannot be told whether training helped: {reason}."
    is_clear = difference.p <= 0.05 and not difference.low <= 0 <= difference.high
    helped = "Training helped" if difference.low > 0 else "Training did not help"
    interval = f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f} points"
    details = f"95% interval, p = {difference.p:.2g}, {difference.queries:,} queries of {difference.classes:,} classes"
    beginning = helped if is_clear else "It cannot be told whether training helped"
    return f"{beginning}: against the network before training, MAP@R differs by {interval} ({details})."
