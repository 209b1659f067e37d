"""A model as a function from files and pixels to embeddings."""

from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfdml._checks import require
from tfdml.datasets import Preprocessing
from tfdml.serving.limits import Limits


class Embedder:
    """Reads images as a model was evaluated, and embeds them in one batch.

    Args:
        model: has `predict_on_batch`, from uint8 pixels `(batch, height, width, channels)` to `(batch, dim)`.
        preprocessing: how the model's images are read.
        limits: of files; the smaller one of these and of `preprocessing` counts.

    Raises:
        ValueError: a preprocessing with boxes, or a model that does not embed its images.
    """

    def __init__(self, model: Any, preprocessing: Preprocessing, limits: Limits):
        require(
            not preprocessing.boxes, "a model that cuts boxes", "one of whole images. Cut them before they are sent"
        )
        sizes = {name: min(getattr(preprocessing, name), getattr(limits, name)) for name in ("max_bytes", "max_pixels")}
        self.preprocessing = replace(preprocessing, **sizes)
        self.shape = self.preprocessing.shape
        self._model = model
        files = tf.TensorSpec((None,), tf.string)
        self._read = tf.function(self.preprocessing.batch_from_bytes, input_signature=[files], autograph=False)
        self.dim = self._warmed()

    def __call__(self, images: list[bytes | np.ndarray]) -> list[np.ndarray | str]:
        """Embeddings of images.

        Args:
            images: contents of files, or uint8 pixels of `shape`.

        Returns:
            for each image its embedding, `(dim,)` float32, or the reason why it has none.
        """
        pixels, problems = self._pixels(images)
        good = np.flatnonzero([problem == "" for problem in problems])
        results: list[np.ndarray | str] = list(problems)
        for place, embedding in zip(good, self._embedded(pixels[good]), strict=True):
            finite = np.isfinite(embedding).all()
            results[place] = embedding if finite else "an image whose embedding is not finite, expected finite numbers."
        return results

    def picture(self, path: str, side: int) -> tuple[str, bytes]:
        """A small picture of an image file: its type, and a PNG of a small image or a JPEG reduced to `side`.

        Raises:
            tf.errors.OpError: a file that cannot be read.
        """
        pixels = self.preprocessing.original(path)
        if max(pixels.shape[:2]) <= side:
            return "image/png", tf.io.encode_png(pixels).numpy()
        small = tf.image.resize(pixels, (side, side), preserve_aspect_ratio=True, antialias=True)
        return "image/jpeg", tf.io.encode_jpeg(tf.cast(tf.clip_by_value(small + 0.5, 0, 255), tf.uint8)).numpy()

    def _pixels(self, images):
        """Pixels `(batch, *shape)`, and for each image a reason, empty if it was read."""
        pixels, problems = np.zeros((len(images), *self.shape), np.uint8), [""] * len(images)
        for place, image in enumerate(images):
            if not isinstance(image, bytes):
                pixels[place] = image
        files = [place for place, image in enumerate(images) if isinstance(image, bytes)]
        if files:
            found, reasons = self._read(tf.constant([images[place] for place in files], tf.string))
            pixels[files] = found.numpy()
            for place, reason in zip(files, reasons.numpy(), strict=True):
                problems[place] = reason.decode()
        return pixels, problems

    def _embedded(self, pixels):
        return np.asarray(self._model.predict_on_batch(pixels), np.float32) if len(pixels) else []

    def _warmed(self):
        """The dim of the embeddings. Reading and embedding are traced here, and not by the first request."""
        black = np.zeros(self.shape, np.uint8)
        found = self([black])[0]
        received = f"a model that gives {found if isinstance(found, str) else f'outputs of shape {found.shape}'}"
        require(isinstance(found, np.ndarray) and found.ndim == 1, received, "embeddings (batch, dim) of its images")
        self([tf.io.encode_png(black).numpy()])
        return len(found)
