"""The signatures of a model: functions of the contents of image files, with the types of their outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdml.typing import Embedder

PIXELS, FILES = "serving_default", "serve_bytes"
INPUT, EMBEDDING, ERROR = "images", "embedding", "error"
_PIXELS_OF = {FILES: PIXELS, "search_bytes": "search", "match_bytes": "match"}
_BLANKS = {"float32": 0.0, "int64": -1, "string": ""}


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A signature, as clients see it; `pixels` is the name of the signature that takes the pixels of its images.

    `outputs` are type and shape of each output, without the batch.
    """

    pixels: str
    outputs: dict[str, tuple[str, tuple[int, ...]]]

    @property
    def marks(self) -> bool:
        """Whether an invalid image has an answer of its own, with the reason in `error`."""
        return ERROR in self.outputs

    def marked(self, result: dict[str, Any] | str) -> dict[str, Any]:
        """The outputs of an image, with zeros, -1 or no text for one that is invalid for the reason `result`."""
        if not isinstance(result, str):
            return {**result, ERROR: ""}
        return {**{name: _blank(*output) for name, output in self.outputs.items()}, ERROR: result}


def is_of_pairs(model: Embedder) -> bool:
    """Whether a model takes two images at a time and returns their score: a `tfdml.models.PairModel`, or its export."""
    exported = getattr(model, "signatures", None)
    if exported is not None:
        return PIXELS in exported and INPUT not in exported[PIXELS].structured_input_signature[1]
    return len(getattr(model, "inputs", None) or ()) == 2


def signatures_of(model: Embedder, dim: int) -> dict[str, Signature]:
    """The signatures of files by name; a model without signatures embeds files."""
    exported = getattr(model, "signatures", None)
    if exported is not None:
        return {name: _signature(name, exported[name]) for name in _PIXELS_OF if name in exported}
    return {FILES: Signature(pixels=PIXELS, outputs={EMBEDDING: ("float32", (dim,))})}


def functions_of(model: Embedder) -> dict[str, Callable[[np.ndarray], dict[str, np.ndarray]]]:
    """The functions of pixels by the name of their signature: from a batch to its outputs."""
    exported = {name: _as_function(function) for name, function in getattr(model, "signatures", {}).items()}
    embeddings = {PIXELS: lambda pixels: {EMBEDDING: np.asarray(model.predict_on_batch(pixels), np.float32)}}
    return {name: exported[name] for name in _PIXELS_OF.values() if name in exported} | embeddings


def _as_function(signature):
    names = sorted(signature.structured_outputs)

    def outputs(pixels):
        tensors = signature(**{INPUT: tf.constant(pixels)})
        return {name: tensors[name].numpy() for name in names}

    return outputs


def _signature(name, function):
    outputs = {output: (spec.dtype.name, tuple(spec.shape[1:])) for output, spec in function.structured_outputs.items()}
    return Signature(pixels=_PIXELS_OF[name], outputs=dict(sorted(outputs.items())))


def _blank(dtype, shape):
    return np.full(shape, _BLANKS[dtype], object if dtype == "string" else dtype)
