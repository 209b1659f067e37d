"""Checks and normalization of the embeddings of a batch or set."""

import numpy as np
import numpy.typing as npt


def require_matrix(embeddings: npt.ArrayLike, order: str) -> None:
    """Raise a ValueError unless embeddings are a matrix; labels passed in their place are not."""
    if np.ndim(embeddings) != 2:
        raise ValueError(
            f"Received embeddings of shape {np.shape(embeddings)}, expected (examples, dim). The order is {order}."
        )


def l2_normalize(embeddings: npt.ArrayLike) -> np.ndarray:
    """Embeddings scaled to norm 1, in float64.

    Raises:
        ValueError: an embedding of norm 0 or not finite.
    """
    x = np.asarray(embeddings, dtype="float64")
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    if not (np.isfinite(norms).all() and norms.all()):
        raise ValueError("Received an embedding of norm 0, NaN or infinity, expected vectors that have a direction.")
    return x / norms
