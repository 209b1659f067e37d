"""Scores of copies of images with all images, by embeddings and by pixels."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require, require_seed, require_whole
from tfdml.cleaning.made_copies import COPIES, Copy
from tfdml.cleaning.registration import thumbnail
from tfdml.cleaning.verification import CANDIDATES, Thumbnails, pixels_of, verified
from tfdml.datasets import LabeledSet
from tfdml.embedding.in_memory import embed
from tfdml.search.scores import l2_normalize
from tfdml.typing import Embedder

_CANDIDATE_RECALL = 0.99  # share of the copies that are candidates by their similarity


class CopyScores(NamedTuple):
    """Scores of copies of images with all images of their set.

    Attributes:
        by_kind: scores `(copies, n)` by kind of copy: cosine similarities, or, of verified candidates, the scores of
            their registration, and -1 for other images.
        copies: the copies by kind, `(copies, ...)`, as the model takes them.
        rows: `(copies,)`, the row of the original of each copy.
        floor: the least similarity of candidates; None where they were not verified.
    """

    by_kind: Mapping[str, np.ndarray]
    copies: Mapping[str, np.ndarray]
    rows: np.ndarray
    floor: float | None

    def matched(self) -> dict[str, np.ndarray]:
        """Score of each copy with its original, by kind."""
        return {name: scores[np.arange(len(self.rows)), self.rows] for name, scores in self.by_kind.items()}

    def mismatched(self) -> dict[str, np.ndarray]:
        """Scores `(copies, n - 1)` of each copy with the other images, by kind."""
        is_other = np.arange(next(iter(self.by_kind.values())).shape[1]) != self.rows[:, None]
        return {name: scores[is_other].reshape(len(self.rows), -1) for name, scores in self.by_kind.items()}


def score_copies(
    model: Embedder,
    data: LabeledSet,
    embeddings: np.ndarray,
    *,
    kinds: Mapping[str, Copy] = COPIES,
    sample: int = 128,
    verify: bool = True,
    floor: float | None = None,
    seed: int = 0,
    batch_size: int = 64,
) -> CopyScores:
    """Make copies of a sample of the images, and compare each with all images.

    With `verify`, the ten nearest neighbors of a copy from a similarity on are candidates, and their score is that of
    the registration of their pixels; otherwise it is the cosine similarity.

    See also: `calibrate`, which chooses a threshold of these scores.

    Example: two copies at half of the brightness, compared with six images.

        >>> images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), "uint8")
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.zeros(6, int), class_names=("noise",))
        >>> inputs = keras.Input((8, 8, 3))
        >>> model = keras.Model(inputs, keras.layers.Flatten()(inputs))
        >>> x, darker = tfdml.models.embed(model, data), {"darker": lambda pixels, generator: pixels // 2}
        >>> scores = tfdml.cleaning.score_copies(model, data, x, kinds=darker, sample=2, verify=False)
        >>> scores.by_kind["darker"].shape, scores.matched()["darker"].round(2)
        ((2, 6), array([1., 1.], dtype=float32))

    Args:
        model, data, embeddings, kinds, sample, verify, seed, batch_size: as for `calibrate`.
        floor: the least similarity of candidates, such as that of a `Calibration`; None: that of 99% of the copies.

    Returns:
        `CopyScores`.

    Raises:
        ValueError: fewer than two images, or an option out of range.
    """
    require_whole("sample", sample, 2)
    require_seed(seed)
    require(len(data) > 1, f"{len(data)} images", "at least two, of which one is not a copy of the other")
    rng = np.random.default_rng(seed)
    rows, unit = np.sort(rng.permutation(len(data))[:sample]), l2_normalize(np.asarray(embeddings, np.float32))
    subset, products, copies, thumbnails = data.take(rows), {}, {}, {}
    for name, copy in kinds.items():
        rng = np.random.default_rng([seed, *name.encode()])
        loaded, thumbnails[name] = zip(*(_copy(subset, row, copy, rng) for row in range(len(rows))), strict=True)
        copies[name] = np.stack(loaded)
        products[name] = l2_normalize(embed(model, copies[name], batch_size=batch_size)) @ unit.T
    if not verify:
        return CopyScores(products, copies, rows, None)
    if floor is None:
        matched = [each[np.arange(len(rows)), rows] for each in products.values()]
        floor = float(np.quantile(matched, 1 - _CANDIDATE_RECALL))
    images = Thumbnails([data])
    scores = {name: _registered(each, floor, thumbnails[name], images) for name, each in products.items()}
    return CopyScores(scores, copies, rows, floor)


def _registered(products, floor, copies, originals):
    """Scores of the candidates of copies, `(copies, n)`; -1 for other images."""
    scores = np.full(products.shape, -1.0)
    count = min(CANDIDATES, products.shape[1])
    columns = np.argpartition(-products, count - 1, axis=1)[:, :count]
    copy, column = np.nonzero(np.take_along_axis(products, columns, axis=1) >= floor)
    pairs = np.stack([copy, columns[copy, column]], axis=1)
    scores[tuple(pairs.T)] = verified(pairs, copies, originals)
    return scores


def _copy(data, row, copy, rng):
    """A copy of an image, of the shape that the model takes, and its thumbnail."""
    pixels, load = pixels_of(data, row)
    pixels = np.ascontiguousarray(copy(pixels, rng))
    return np.asarray(load(pixels)), thumbnail(pixels)
