"""A model as functions of files and pixels."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfdml._core.checks import require
from tfdml.datasets import Preprocessing
from tfdml.serving.limits import Limits
from tfdml.serving.signatures import EMBEDDING, PIXELS, functions_of, is_of_pairs, signatures_of
from tfdml.typing import Embedder as ImageModel

_PARALLEL_FILES = 8  # files that are decoded at the same time
_NOT_FINITE = "an image whose embedding or score is not finite, expected finite numbers."


class Embedder:
    """Read images as the model was evaluated, and compute the outputs of one of its signatures in one batch.

    `model.predict_on_batch` takes uint8 pixels `(batch, height, width, channels)` and returns `(batch, dim)`; an
    exported one has `signatures`, too. The smaller ones of `limits` and of the limits of `preprocessing` count. A
    preprocessing with boxes, and a model that does not embed its images, such as a model of pairs, are a ValueError.
    """

    def __init__(self, model: ImageModel, preprocessing: Preprocessing, limits: Limits):
        expected = "one that embeds images. Score the neighbors of its search in your program: tfdml.search.rerank"
        require(not is_of_pairs(model), "a model of pairs of images", expected)
        require(
            not preprocessing.boxes, "a model that cuts boxes", "one of whole images. Cut them before they are sent"
        )
        sizes = {name: min(getattr(preprocessing, name), getattr(limits, name)) for name in ("max_bytes", "max_pixels")}
        self.preprocessing = replace(preprocessing, **sizes)
        self.shape = self.preprocessing.shape
        self._functions = functions_of(model)
        self._read, self._readers = self.preprocessing.reader(), ThreadPoolExecutor(_PARALLEL_FILES, "files")
        self.dim = self._trace()
        self.signatures = signatures_of(model, self.dim)

    def __call__(
        self, images: list[bytes | np.ndarray], signature: str = PIXELS
    ) -> list[dict[str, np.ndarray | bytes] | str]:
        """For each image, a file or pixels of `shape`, its outputs by name, or the reason why it has none."""
        pixels, problems = self._pixels(images)
        good = np.flatnonzero([problem == "" for problem in problems])
        results: list[Any] = list(problems)
        for number, row in zip(good, self._rows(pixels[good], signature), strict=True):
            results[number] = row if all(map(_is_finite, row.values())) else _NOT_FINITE
        return results

    def picture(self, path: str, side: int) -> tuple[str, bytes]:
        """A small picture of an image file: its type, and a PNG of a small image or a JPEG reduced to `side`."""
        pixels = self.preprocessing.original(path)
        if max(pixels.shape[:2]) <= side:
            return "image/png", tf.io.encode_png(pixels).numpy()
        small = tf.image.resize(pixels, (side, side), preserve_aspect_ratio=True, antialias=True)
        return "image/jpeg", tf.io.encode_jpeg(tf.cast(tf.clip_by_value(small + 0.5, 0, 255), tf.uint8)).numpy()

    def _pixels(self, images):
        """Pixels `(batch, *shape)`, and for each image a reason, empty if it was read."""
        files = [number for number, image in enumerate(images) if isinstance(image, bytes)]
        read = map if len(files) < 2 else self._readers.map
        read_files = dict(zip(files, read(self._read, [images[number] for number in files]), strict=True))
        dtype = np.result_type(np.uint8, *(image.dtype for image in images if not isinstance(image, bytes)))
        pixels, problems = np.zeros((len(images), *self.shape), dtype), [""] * len(images)
        for number, image in enumerate(images):
            image, problems[number] = read_files.get(number, (image, ""))
            if not problems[number]:
                pixels[number] = image
        return pixels, problems

    def _rows(self, pixels, signature):
        """The outputs of each image."""
        outputs = self._functions[signature](pixels) if len(pixels) else {}
        return [{name: values[row] for name, values in outputs.items()} for row in range(len(pixels))]

    def _trace(self):
        """Trace reading and embedding, before the first request does; the dim of the embeddings."""
        black = np.zeros(self.shape, np.uint8)
        row = self([black])[0]
        received = f"a model that gives {row if isinstance(row, str) else f'outputs of shape {row[EMBEDDING].shape}'}"
        good = not isinstance(row, str) and row[EMBEDDING].ndim == 1
        require(good, received, "embeddings (batch, dim) of its images")
        for signature in self._functions:
            self([tf.io.encode_png(black).numpy()], signature)
        return len(row[EMBEDDING])


def _is_finite(values):
    values = np.asarray(values)
    return values.dtype.kind != "f" or bool(np.isfinite(values).all())
