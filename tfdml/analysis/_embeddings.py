"""Checks and normalization of embeddings."""

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require


def require_matrix(embeddings: npt.ArrayLike, order: str) -> None:
    """Raise a ValueError unless embeddings are a matrix; labels passed in their place are not."""
    shape = np.shape(embeddings)
    require(len(shape) == 2, f"embeddings of shape {shape}", f"(examples, dim). The order is {order}")


def l2_normalize(embeddings: npt.ArrayLike) -> np.ndarray:
    """Embeddings scaled to norm 1, in float64; a norm of 0 or not finite is a ValueError."""
    x = np.asarray(embeddings, dtype="float64")
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    has_direction = bool(np.isfinite(norms).all() and norms.all())
    require(has_direction, "an embedding of norm 0, NaN or infinity", "vectors that have a direction")
    return x / norms
