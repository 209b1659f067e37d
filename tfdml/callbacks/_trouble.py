"""Embeddings that cannot be ranked, and models that have diverged."""

import keras
import numpy as np


def trouble_with(embeddings: np.ndarray) -> str | None:
    """The reason why embeddings cannot be ranked, with likely causes, or None."""
    with np.errstate(over="ignore", invalid="ignore"):
        embeddings = np.asarray(embeddings, "float32")
    broken = 1.0 - np.isfinite(embeddings).all(axis=1).mean()
    if broken > 0:
        return (
            f"{broken:.1%} of the embeddings are not finite. Likely causes: a learning rate that is too high, half "
            "precision without loss scaling, inputs that are not finite."
        )
    if len(embeddings) > 1 and np.ptp(embeddings, axis=0).max() <= 1e-6 * np.abs(embeddings).max():
        return (
            "all embeddings are the same: the model has collapsed. Likely causes: averages of BatchNormalization that "
            "lag during the first hundreds of steps (wait, or lower their momentum to 0.9), a learning rate that is "
            "too high, inputs that do not reach the output."
        )
    return None


def variable_not_finite(model: keras.Model) -> str | None:
    """The path of the first variable of a model or its optimizer with a number that is not finite, or None."""
    variables = [*model.variables, *getattr(getattr(model, "optimizer", None), "variables", ())]
    return next((variable.path for variable in variables if not _is_finite(variable)), None)


def _is_finite(variable):
    if not keras.backend.is_float_dtype(variable.dtype):
        return True
    return bool(keras.ops.convert_to_numpy(keras.ops.all(keras.ops.isfinite(variable))))
