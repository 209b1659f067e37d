"""The similarity from which images are near-duplicates, calibrated on copies of the images themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfdml import embedding
from tfdml._core.checks import require, require_fraction, require_seed, require_whole
from tfdml.cleaning.copies import COPIES, Copy
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.search.duplicates.binomial import binomial_interval
from tfdml.search.scores import l2_normalize
from tfdml.typing import Embedder


class Recall(NamedTuple):
    """Share of the copies of a kind that reach the similarity, with its 95% interval (Clopper-Pearson)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A similarity and what it finds, as `calibrate` returns it.

    Attributes:
        similarity: from this cosine similarity on, two images are near-duplicates; above 1 where no similarity has the
            precision.
        precision: share of copies among the pairs of a copy and an image that reach it; 1 without such pairs.
        recall: `Recall` by kind of copy.
        images: number of images that were copied.
    """

    similarity: float
    precision: float
    recall: Mapping[str, Recall]
    images: int


def calibrate(
    model: Embedder,
    data: LabeledSet,
    embeddings: np.ndarray,
    *,
    precision: float = 0.99,
    kinds: Mapping[str, Copy] = COPIES,
    sample: int = 128,
    seed: int = 0,
    batch_size: int = 64,
) -> Calibration:
    """Make copies of a sample of the images, and choose the least similarity of the stated precision.

    Each copy is compared with all embeddings. The pair with its original is right, every other one is wrong, but for
    images that are as similar to the original as the median copy: they are taken for duplicates that the set has
    already, and are not counted.

    Args:
        model: model of the embeddings.
        data: images `(height, width, 3)` uint8, or files with a `load` such as `tfdml.datasets.Preprocessing`.
        embeddings: `(n, dim)` of `data`, centered as those of `model` are by `tfdml.cleaning.clean`, or not.
        precision: in (0, 1].
        kinds: functions of pixels and a generator by name.
        sample: number of images that are copied.
        seed: of the sample and the copies.
        batch_size: number of copies embedded at the same time.

    Returns:
        `Calibration`.

    Raises:
        ValueError: fewer than two images, or an option out of range.
    """
    require_fraction(precision=precision)
    require_whole("sample", sample, 2)
    require_seed(seed)
    require(len(data) > 1, f"{len(data)} images", "at least two, of which one is not a copy of the other")
    rng = np.random.default_rng(seed)
    rows, unit = np.sort(rng.permutation(len(data))[:sample]), l2_normalize(np.asarray(embeddings, np.float32))
    subset = data.take(rows)
    true, false = {}, []
    for name, copy in kinds.items():
        copies = _copies(subset, copy, np.random.default_rng([seed, *name.encode()]))
        products = l2_normalize(embedding.embed(model, copies, batch_size=batch_size)) @ unit.T
        true[name] = products[np.arange(len(rows)), rows]
        false.append(products)
    positive = np.concatenate(list(true.values()))
    is_other = ~(unit[rows] @ unit.T >= np.median(positive))
    is_other[np.arange(len(rows)), rows] = False
    negative = np.concatenate([products[is_other] for products in false])
    similarity = _least_similarity(positive, negative, precision)
    return Calibration(
        similarity=similarity,
        precision=_precision(positive, negative, similarity),
        recall={name: _recall(values >= similarity) for name, values in true.items()},
        images=len(rows),
    )


def _least_similarity(positive, negative, precision):
    """The least similarity of this precision; just above 1 if there is none."""
    values = np.concatenate([positive, negative])
    order = np.argsort(-values, kind="stable")
    values, is_right = values[order], (np.arange(len(values)) < len(positive))[order]
    ends = np.append(values[1:] < values[:-1], True)
    shares = np.cumsum(is_right) / np.arange(1, len(values) + 1)
    sufficient = np.flatnonzero(ends & (shares >= precision))
    return float(min(values[sufficient[-1]], 1)) if len(sufficient) else float(np.nextafter(1, 2))


def _precision(positive, negative, similarity):
    counts = np.count_nonzero(positive >= similarity), np.count_nonzero(negative >= similarity)
    return counts[0] / sum(counts) if sum(counts) else 1.0


def _recall(is_copy):
    count = int(is_copy.sum())
    return Recall(count / len(is_copy), *binomial_interval(count, len(is_copy)))


def _copies(data, copy, rng):
    """Copies of all images, of the shape that the model takes."""
    images = []
    for row in range(len(data)):
        pixels, load = _pixels(data, row)
        images.append(np.asarray(load(np.ascontiguousarray(copy(pixels, rng)))))
    return np.stack(images)


def _pixels(data: LabeledSet, row: int) -> tuple[np.ndarray, Any]:
    """An image before it is resized where its `load` can tell, and the function that gives a copy its size."""
    if isinstance(data.load, Preprocessing) and not data.load.boxes:
        return _as_rgb(data.load.original(data.keys[row])), data.load
    pixels = data.take([row]).examples()[0]
    return _as_rgb(pixels), Preprocessing(size=pixels.shape[:2], channels=pixels.shape[2])


def _as_rgb(pixels):
    pixels = np.asarray(pixels)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[..., :3]
