"""The similarity from which images are near-duplicates, calibrated on copies of the images themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require_fraction
from tfdml.cleaning.copy_scores import score_copies
from tfdml.cleaning.made_copies import COPIES, Copy
from tfdml.cleaning.verification import Thumbnails, verified
from tfdml.datasets import LabeledSet
from tfdml.search.duplicates.binomial import binomial_interval
from tfdml.search.scores import l2_normalize
from tfdml.typing import Embedder

_ALIKE, _ALIKE_VERIFIED = 0.5, 0.1  # quantile of the scores of copies from which images are duplicates already
_KEPT_RECALL = 0.97  # share of the copies below whose score the threshold stays


class Recall(NamedTuple):
    """Share of the copies of a kind that reach the similarity, with its 95% interval (Clopper-Pearson).

    Example: all of 20 copies; the interval begins at 0.025^(1/20).

        >>> images = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), "uint8")
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.zeros(30, int), class_names=("noise",))
        >>> inputs = keras.Input((8, 8, 3))
        >>> model = keras.Model(inputs, keras.layers.Flatten()(inputs))
        >>> x, same = tfdml.models.embed(model, data), {"same": lambda pixels, generator: pixels}
        >>> recall = tfdml.cleaning.calibrate(model, data, x, kinds=same, sample=20, verify=False).recall["same"]
        >>> recall.value, round(recall.low, 4), recall.high
        (1.0, 0.8316, 1.0)
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A similarity and what it finds, as `calibrate` returns it.

    Attributes:
        similarity: from this cosine similarity on, two images are near-duplicates, or, where they are verified,
            candidates; above 1 where no similarity has the precision.
        precision: share of copies among the pairs of a copy and an image that are taken for near-duplicates; 1 without
            such pairs.
        recall: `Recall` by kind of copy.
        images: number of images that were copied.
        registration: score from which a candidate is a near-duplicate, see `tfdml.cleaning.register`; above 1 where no
            score has the precision; None without verification.
    """

    similarity: float
    precision: float
    recall: Mapping[str, Recall]
    images: int
    registration: float | None = None


def calibrate(
    model: Embedder,
    data: LabeledSet,
    embeddings: np.ndarray,
    *,
    precision: float = 0.99,
    kinds: Mapping[str, Copy] = COPIES,
    sample: int = 128,
    verify: bool = True,
    seed: int = 0,
    batch_size: int = 64,
) -> Calibration:
    """Make copies of a sample of the images, and choose from which score on two images are near-duplicates.

    The scores are those of `score_copies`. The pair of a copy and its original is right, every other one is wrong, but
    for images that are as similar to the original as the median copy, or register as 90% of the copies do: they are
    taken for duplicates that the set has already, and are not counted.

    A similarity is the least one of the stated precision. A score of registrations is halfway between the highest
    refused score of that threshold and the score that 97% of the copies reach, where that is higher, because other
    images have other neighbors.

    See also: `clean`, which calls it.

    Example: a network that returns the pixels of noise, and copies that are brighter.

        >>> images = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), "uint8")
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.zeros(30, int), class_names=("noise",))
        >>> inputs = keras.Input((8, 8, 3))
        >>> model = keras.Model(inputs, keras.layers.Flatten()(inputs))
        >>> x = tfdml.models.embed(model, data)
        >>> brighter = {"brighter": lambda pixels, generator: np.minimum(pixels * 1.2, 255).astype("uint8")}
        >>> calibration = tfdml.cleaning.calibrate(model, data, x, kinds=brighter, sample=20, verify=False)
        >>> 0.9 < calibration.similarity < 1, float(calibration.precision), calibration.recall["brighter"].value
        (True, 1.0, 1.0)

    Args:
        model: model of the embeddings.
        data: images `(height, width, 3)` uint8, or files with a `load` such as `tfdml.datasets.Preprocessing`.
        embeddings: `(n, dim)` of `data`, centered as those of `model` are by `Centered`, or not.
        precision: in (0, 1].
        kinds: functions of pixels and a generator by name.
        sample: number of images that are copied.
        verify: whether candidates are verified by their pixels.
        seed: of the sample and the copies.
        batch_size: number of copies embedded at the same time.

    Returns:
        `Calibration`.

    Raises:
        ValueError: fewer than two images, or an option out of range.
    """
    require_fraction(precision=precision)
    scores = score_copies(
        model, data, embeddings, kinds=kinds, sample=sample, verify=verify, seed=seed, batch_size=batch_size
    )
    if verify:
        between = _between_originals(scores, Thumbnails([data]))
    else:
        unit = l2_normalize(np.asarray(embeddings, np.float32))
        between = unit[scores.rows] @ unit.T
    return _calibrated(scores, between, precision)


def _between_originals(scores, images):
    """Scores between originals where an image registers with a copy of another one as 90% of the copies do."""
    highest = np.max(list(scores.by_kind.values()), axis=0)
    is_like = highest >= np.quantile(list(scores.matched().values()), _ALIKE_VERIFIED)
    is_like[np.arange(len(highest)), scores.rows] = False
    pairs, between = np.argwhere(is_like), np.full(highest.shape, -1.0)
    between[is_like] = verified(np.stack([scores.rows[pairs[:, 0]], pairs[:, 1]], axis=1), images, images)
    return between


def _calibrated(scores, between, precision):
    """The `Calibration` of scores of copies, and of scores between originals and images."""
    is_verified, rows = scores.floor is not None, scores.rows
    matched = np.concatenate(list(scores.matched().values()))
    is_other = ~(between >= np.quantile(matched, _ALIKE_VERIFIED if is_verified else _ALIKE))
    is_other[np.arange(len(rows)), rows] = False
    mismatched = np.concatenate([each[is_other] for each in scores.by_kind.values()])
    threshold = _least_similarity(matched, mismatched, precision)
    if is_verified:
        threshold = _halfway(matched, mismatched, threshold)
    return Calibration(
        similarity=scores.floor if is_verified else threshold,
        precision=_precision(matched, mismatched, threshold),
        recall={name: _recall(values >= threshold) for name, values in scores.matched().items()},
        images=len(rows),
        registration=threshold if is_verified else None,
    )


def _halfway(positive, negative, least):
    """Halfway between the highest score below the least one and the score that most copies reach; or the least one."""
    scores = np.concatenate([positive, negative])
    refused, kept = scores[scores < least].max(initial=0.0), float(np.quantile(positive, 1 - _KEPT_RECALL))
    return float((refused + kept) / 2) if kept >= least else least


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
