"""Losses and metrics that `compile` would take, and that mean something else than their user thinks."""

from typing import Any

import keras

from tfdml._core.checks import require


def require_losses_and_metrics(losses: list[Any], *metrics: Any) -> None:
    """Raise a ValueError for a class in place of a loss, or for a metric of class scores on embeddings."""
    for loss in losses:
        received = f"the class {getattr(loss, '__name__', loss)} as a loss"
        require(not isinstance(loss, type), received, f"an object: {getattr(loss, '__name__', loss)}(...)")
    compare_labels = [hasattr(loss, "pairing") or "losses" in getattr(loss, "settings", {}) for loss in losses]
    if losses and all(compare_labels):
        for metric in keras.tree.flatten(metrics):
            name = metric if isinstance(metric, str) else type(metric).__name__
            is_of_scores = name.lower() in ("acc", "ce") or name.lower().endswith(("accuracy", "crossentropy"))
            expected = (
                "none: it would compare class ids with the columns of embeddings. Measure embeddings by "
                "callbacks=[tfdml.callbacks.RetrievalEvaluation((x, labels))] of fit"
            )
            require(not is_of_scores, f"the metric {name!r} for a loss of embeddings", expected)
