"""Scores of the positions of an exemplar in search images: by a siamese network, and by template matching."""

from typing import Any, Protocol

import keras
import numpy as np
from skimage.feature import match_template

from recipes.checks import require


class Matcher(Protocol):
    """Scores of the positions of an exemplar, for `Tracker`.

    Attributes:
        exemplar_size, search_size: sides of the crops in pixels.
        stride: pixels of the search image between neighboring scores.
    """

    exemplar_size: int
    search_size: int
    stride: float

    def start(self, exemplar: np.ndarray) -> Any:
        """The state that `scores` compares with, from a crop `(exemplar_size, exemplar_size, 3)` uint8."""

    def scores(self, state: Any, searches: np.ndarray) -> np.ndarray:
        """Scores `(n, map, map)` of crops `(n, search_size, search_size, 3)` uint8, the largest at the exemplar."""


class SiameseMatcher:
    """Scores by `siam_fc`; the features of the exemplar are computed once.

    Args:
        model: the network, or a model with the same layers `branch` and `cross_correlation`.
    """

    def __init__(self, model: keras.Model) -> None:
        exemplar, search = (each.shape[1] for each in model.inputs)
        self.exemplar_size, self.search_size = exemplar, search
        self.stride = (search - exemplar) / (model.output_shape[-1] - 1)
        self._branch, correlation = model.get_layer("branch"), model.get_layer("cross_correlation")
        features = keras.Input(self._branch.compute_output_shape((None, exemplar, exemplar, 3))[1:])
        pixels = keras.Input((search, search, 3))
        self._scores = keras.Model([features, pixels], correlation([features, self._branch(pixels)]))

    def start(self, exemplar: np.ndarray) -> np.ndarray:
        """The features of the exemplar, `(1, h, w, channels)`."""
        return np.asarray(self._branch.predict_on_batch(exemplar[None].astype(np.float32)))

    def scores(self, state: np.ndarray, searches: np.ndarray) -> np.ndarray:
        """Scores `(n, map, map)`."""
        features = np.repeat(state, len(searches), axis=0)
        return np.asarray(self._scores.predict_on_batch([features, searches.astype(np.float32)]))


class TemplateMatcher:
    """Scores by normalized cross-correlation of pixels, `skimage.feature.match_template`: a baseline without training.

    The score is the mean of the correlations of red, green and blue.

    Args:
        exemplar_size, search_size: sides of the crops in pixels.
        share: share of the side of the exemplar that is the template, around its middle. With a context of 1/2, a
            share of 1/2 holds a square target alone.
    """

    stride = 1.0

    def __init__(self, *, exemplar_size: int = 63, search_size: int = 127, share: float = 1.0) -> None:
        sizes = f"exemplar_size={exemplar_size} and search_size={search_size}"
        require(0 < exemplar_size <= search_size, sizes, "an exemplar that fits into the search image")
        require(0 < share <= 1, f"share={share}", "a number in (0, 1]")
        self.exemplar_size, self.search_size = exemplar_size, search_size
        margin = round(exemplar_size * (1 - share) / 2)
        self._window = slice(margin, exemplar_size - margin)

    def start(self, exemplar: np.ndarray) -> np.ndarray:
        """The template, `(h, w, 3)` float32."""
        return exemplar[self._window, self._window].astype(np.float32)

    def scores(self, state: np.ndarray, searches: np.ndarray) -> np.ndarray:
        """Correlations in [-1, 1], `(n, map, map)`."""
        pixels = searches.astype(np.float32)
        return np.stack([np.mean([match_template(x[..., c], state[..., c]) for c in range(3)], axis=0) for x in pixels])
