"""The similarity from which images are near-duplicates, calibrated on copies of the images themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfdml import embedding
from tfdml._core.checks import require, require_fraction, require_seed, require_whole
from tfdml.cleaning.copies import COPIES, Copy
from tfdml.cleaning.registration import thumbnail
from tfdml.cleaning.verification import CANDIDATES, Thumbnails, pixels_of, verified
from tfdml.datasets import LabeledSet
from tfdml.search.duplicates.binomial import binomial_interval
from tfdml.search.scores import l2_normalize
from tfdml.typing import Embedder

_CANDIDATE_RECALL = 0.99  # share of the copies that are candidates by their similarity
_ALIKE, _ALIKE_VERIFIED = 0.5, 0.1  # quantile of the scores of copies from which images are duplicates already
_KEPT_RECALL = 0.97  # share of the copies below whose score the threshold stays


class Recall(NamedTuple):
    """Share of the copies of a kind that reach the similarity, with its 95% interval (Clopper-Pearson)."""

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

    Each copy is compared with all embeddings. With `verify`, its ten nearest neighbors of at least the similarity that
    99% of the copies have are candidates, and their score is that of the registration of their pixels; otherwise it is
    the cosine similarity. The pair of a copy and its original is right, every other one is wrong, but for images that
    are as similar to the original as the median copy, or register as 90% of the copies do: they are taken for
    duplicates that the set has already, and are not counted.

    A similarity is the least one of the stated precision. A score of registrations is halfway between the highest
    refused score of that threshold and the score that 97% of the copies reach, where that is higher, because other
    images have other neighbors.

    Args:
        model: model of the embeddings.
        data: images `(height, width, 3)` uint8, or files with a `load` such as `tfdml.datasets.Preprocessing`.
        embeddings: `(n, dim)` of `data`, centered as those of `model` are by `tfdml.cleaning.clean`, or not.
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
    require_whole("sample", sample, 2)
    require_seed(seed)
    require(len(data) > 1, f"{len(data)} images", "at least two, of which one is not a copy of the other")
    rng = np.random.default_rng(seed)
    rows, unit = np.sort(rng.permutation(len(data))[:sample]), l2_normalize(np.asarray(embeddings, np.float32))
    subset, products, thumbnails = data.take(rows), {}, {}
    for name, copy in kinds.items():
        pixels, copies = _copies(subset, copy, np.random.default_rng([seed, *name.encode()]))
        products[name] = l2_normalize(embedding.embed(model, copies, batch_size=batch_size)) @ unit.T
        thumbnails[name] = list(map(thumbnail, pixels)) if verify else []
    if not verify:
        return _calibrated(products, unit[rows] @ unit.T, rows, precision)
    floor = float(np.quantile([each[np.arange(len(rows)), rows] for each in products.values()], 1 - _CANDIDATE_RECALL))
    originals = Thumbnails([data])
    scores = {name: _registered(each, floor, thumbnails[name], originals) for name, each in products.items()}
    return _calibrated(scores, _between_originals(scores, rows, originals), rows, precision, floor)


def _registered(products, floor, copies, originals):
    """Scores of the candidates of copies, `(copies, n)`; -1 for other images."""
    scores = np.full(products.shape, -1.0)
    count = min(CANDIDATES, products.shape[1])
    columns = np.argpartition(-products, count - 1, axis=1)[:, :count]
    copy, column = np.nonzero(np.take_along_axis(products, columns, axis=1) >= floor)
    pairs = np.stack([copy, columns[copy, column]], axis=1)
    scores[tuple(pairs.T)] = verified(pairs, copies, originals)
    return scores


def _between_originals(scores, rows, originals):
    """Scores between originals where an image registers with a copy of another one as 90% of the copies do."""
    highest = np.max(list(scores.values()), axis=0)
    is_like = highest >= np.quantile([each[np.arange(len(rows)), rows] for each in scores.values()], _ALIKE_VERIFIED)
    is_like[np.arange(len(rows)), rows] = False
    pairs, between = np.argwhere(is_like), np.full(highest.shape, -1.0)
    between[is_like] = verified(np.stack([rows[pairs[:, 0]], pairs[:, 1]], axis=1), originals, originals)
    return between


def _calibrated(scores, between, rows, precision, floor=None):
    """The `Calibration` of scores of copies and images, and of scores between originals and images."""
    true = {name: each[np.arange(len(rows)), rows] for name, each in scores.items()}
    positive = np.concatenate(list(true.values()))
    is_other = ~(between >= np.quantile(positive, _ALIKE if floor is None else _ALIKE_VERIFIED))
    is_other[np.arange(len(rows)), rows] = False
    negative = np.concatenate([each[is_other] for each in scores.values()])
    threshold = _least_similarity(positive, negative, precision)
    if floor is not None:
        threshold = _halfway(positive, negative, threshold)
    return Calibration(
        similarity=threshold if floor is None else floor,
        precision=_precision(positive, negative, threshold),
        recall={name: _recall(values >= threshold) for name, values in true.items()},
        images=len(rows),
        registration=None if floor is None else threshold,
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


def _copies(data, copy, rng):
    """Copies of all images, and the same of the shape that the model takes."""
    pairs = [pixels_of(data, row) for row in range(len(data))]
    copies = [np.ascontiguousarray(copy(pixels, rng)) for pixels, _ in pairs]
    return copies, np.stack([np.asarray(load(each)) for each, (_, load) in zip(copies, pairs, strict=True)])
