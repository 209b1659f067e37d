"""A model as functions of files and pixels, by its signatures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import tf
from tfdml.datasets import Preprocessing
from tfdml.serving.limits import Limits
from tfdml.serving.queries import INPUT, FileQuery
from tfdml.typing import Embedder as ImageModel

PIXELS, FILES = "serving_default", "serve_bytes"
EMBEDDING, ERROR = "embedding", "error"
_PIXELS_OF = {FILES: PIXELS, "search_bytes": "search", "match_bytes": "match"}
_BLANKS = {"float32": 0.0, "int64": -1, "string": ""}
_RED, _BLUE = (215, 25, 28), (44, 80, 222)
_NOT_FINITE = "an image whose embedding or score is not finite, expected finite numbers."


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


class Embedder:
    """Read images as the model was evaluated, and compute the outputs of one of its signatures in one batch.

    `model.predict_on_batch` takes uint8 pixels `(batch, height, width, channels)` and returns `(batch, dim)`; an
    exported one has `signatures`, too. The smaller ones of `limits` and of the limits of `preprocessing` count. A
    model that does not embed its images, such as a model of pairs, is a ValueError.
    """

    def __init__(self, model: ImageModel, preprocessing: Preprocessing, limits: Limits):
        expected = "one that embeds images. Score the neighbors of its search in your program: tfdml.search.rerank"
        require(not _is_of_pairs(model), "a model of pairs of images", expected)
        sizes = {name: min(getattr(preprocessing, name), getattr(limits, name)) for name in ("max_bytes", "max_pixels")}
        self.preprocessing = replace(preprocessing, **sizes)
        self.shape, self._whole = self.preprocessing.shape, replace(self.preprocessing, boxes=False, margin=0.0)
        self._functions = _functions_of(model)
        self._read = self.preprocessing.reader()
        self.dim = self._trace()
        self.signatures = signatures_of(model, self.dim)

    def read(self, file: FileQuery) -> tuple[np.ndarray, str]:
        """The pixels of a file, or of a box in a file, and the reason for none, empty if there are some."""
        return self._read(*_arguments(file))

    def __call__(self, images: list[np.ndarray], signature: str = PIXELS) -> list[dict[str, np.ndarray | bytes] | str]:
        """For the pixels of each image, of `shape`: its outputs by name, or why it has none."""
        outputs = self._functions[signature](np.stack(images))
        rows = [{name: values[row] for name, values in outputs.items()} for row in range(len(images))]
        return [row if all(map(_is_finite, row.values())) else _NOT_FINITE for row in rows]

    def window(self, file: FileQuery) -> tuple[slice, slice]:
        """The rows and columns of the pixels of `read` without the bars of padding: those change with their color."""
        if self.preprocessing.fit != "pad":
            return slice(None), slice(None)
        black, white = (reader(*_arguments(file))[0] for reader in self._padding_readers)
        is_content = (black == white).all(-1)
        rows, columns = (np.flatnonzero(is_content.any(axis)) for axis in (1, 0))
        return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)

    @cached_property
    def _padding_readers(self):
        return [replace(self.preprocessing, fill=fill).reader() for fill in (0, 255)]

    def picture(self, path: str, side: int, box: tuple[float, ...] | None = None) -> tuple[str, bytes]:
        """A small picture of an image file: its type, and a PNG of a small image or a JPEG reduced to `side`.

        Around a box, it has a frame of two pixels, and the image outside is darker.
        """
        pixels = self._whole.original(path)
        height, width = pixels.shape[:2]
        if max(height, width) <= side:
            return "image/png", tf.io.encode_png(_framed(pixels.numpy(), box, width)).numpy()
        resized = tf.image.resize(pixels, (side, side), preserve_aspect_ratio=True, antialias=True)
        small = tf.cast(tf.clip_by_value(resized + 0.5, 0, 255), tf.uint8).numpy()
        return "image/jpeg", tf.io.encode_jpeg(_framed(small, box, width)).numpy()

    def _trace(self):
        """Trace reading and embedding, before the first request does; the dim of the embeddings."""
        black = np.zeros(self.shape, np.uint8)
        row = self([black])[0]
        received = f"a model that gives {row if isinstance(row, str) else f'outputs of shape {row[EMBEDDING].shape}'}"
        good = not isinstance(row, str) and row[EMBEDDING].ndim == 1
        require(good, received, "embeddings (batch, dim) of its images")
        file = FileQuery(tf.io.encode_png(black).numpy())
        boxed = FileQuery(file.content, (0.0, 0.0, *self.shape[1::-1]))
        read = [self.read(each)[0] for each in (file, boxed)]
        for signature in self._functions:
            self(read, signature)
        return len(row[EMBEDDING])


def _framed(pixels, box, width):
    """Pixels of an image that was `width` pixels wide, with a frame on the inner side of a box, if there is one."""
    if box is None:
        return pixels
    x, y, end, below = np.round(np.maximum(box, 0) * pixels.shape[1] / width).astype(int)
    inner = pixels[y:below, x:end].copy()
    for edge in (inner[:2], inner[-2:], inner[:, :2], inner[:, -2:]):
        edge[:] = 255
    framed = pixels // 2
    framed[y:below, x:end] = inner
    return framed


def heat_pictures(
    images: Sequence[np.ndarray], maps: Sequence[np.ndarray], windows: Sequence[tuple[slice, slice]]
) -> list[bytes]:
    """PNGs of windows of images under maps `(h, w)`: red above the mean of the window, blue below.

    The color covers 60% at the place that is farthest from the mean.
    """
    heated = [_heated(*each) for each in zip(images, maps, windows, strict=True)]
    return [tf.io.encode_png(pixels).numpy() for pixels in heated]


def _heated(image, shares, window):
    heat = tf.image.resize(np.asarray(shares)[..., None], image.shape[:2]).numpy()[window]
    heat = heat - heat.mean(dtype=np.float64)
    heat /= np.abs(heat).max() or 1.0
    color, cover = np.where(heat > 0, _RED, _BLUE), 0.6 * np.abs(heat)
    return np.round((1 - cover) * image[window] + cover * color).astype(np.uint8)


def _arguments(file):
    return (file.content,) if file.box is None else (file.content, file.box)


def _is_finite(values):
    values = np.asarray(values)
    return values.dtype.kind != "f" or bool(np.isfinite(values).all())


def _is_of_pairs(model: ImageModel) -> bool:
    """Whether a model takes two images at a time and returns their score: a `tfdml.models.PairModel`, or its export."""
    exported = getattr(model, "signatures", None)
    if exported is not None:
        return PIXELS in exported and INPUT not in exported[PIXELS].structured_input_signature[1]
    return len(getattr(model, "inputs", None) or ()) == 2


def signatures_of(model: ImageModel, dim: int) -> dict[str, Signature]:
    """The signatures of files by name; a model without signatures embeds files."""
    exported = getattr(model, "signatures", None)
    if exported is not None:
        return {name: _signature(name, exported[name]) for name in _PIXELS_OF if name in exported}
    return {FILES: Signature(pixels=PIXELS, outputs={EMBEDDING: ("float32", (dim,))})}


def _functions_of(model: ImageModel) -> dict[str, Callable[[np.ndarray], dict[str, np.ndarray]]]:
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
