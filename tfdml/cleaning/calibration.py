"""The lowest similarity of near-duplicates, calibrated on copies of the images themselves."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require, require_fraction, require_seed, require_whole
from tfdml.cleaning.augmented_copies import COPIES
from tfdml.cleaning.pixel_checks import CANDIDATES, checksum_of_pixels, has_details, pixels_of, verified
from tfdml.cleaning.registration import Thumbnail, thumbnail
from tfdml.datasets import LabeledSet
from tfdml.embedding.in_memory import embed
from tfdml.search.duplicates.binomial import binomial_interval
from tfdml.search.scores import l2_normalize
from tfdml.typing import Embedder

ABOVE = float(np.nextafter(1, 2))  # a threshold that nothing reaches
_ALIKE, _ALIKE_VERIFIED = 0.5, 0.1  # quantile of the scores of copies from which images are duplicates already
_KEPT_RECALL = 0.97  # share of the copies below whose score the threshold stays
_CANDIDATE_RECALL = 0.99  # share of the copies that are candidates by their similarity


class Recall(NamedTuple):
    """Share of the copies of a kind that reach the threshold, with its 95% interval (Clopper-Pearson)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A threshold and what it finds; `recall` by kind of copy, of `images` copied images.

    Images are near-duplicates from the cosine `similarity` on. With verification, they are candidates from there on,
    and near-duplicates from the score `registration` on; else it is None. `precision` is the share of copies among the
    pairs of a copy and an image that pass. Where the copies cannot tell, `problem` says why, and nothing passes.
    """

    images: int
    similarity: float = ABOVE
    precision: float | None = None
    recall: Mapping[str, Recall] = field(default_factory=dict)
    registration: float | None = None
    problem: str = ""


class CopyScores(NamedTuple):
    """Scores of copies of images with all images of their set: see `score_copies`.

    `between(scores)` are the scores `(copies, n)` of the originals with all images. With verification, they are -1 but
    where an image registers with a copy of another one as 90% of the copies do.
    """

    by_kind: Mapping[str, np.ndarray]
    copies: Mapping[str, np.ndarray]
    rows: np.ndarray
    floor: float | None
    between: "Callable[[CopyScores], np.ndarray]"

    def matched(self) -> dict[str, np.ndarray]:
        """Score of each copy with its original, by kind."""
        return {name: scores[np.arange(len(self.rows)), self.rows] for name, scores in self.by_kind.items()}

    def mismatched(self) -> dict[str, np.ndarray]:
        """Scores `(copies, n - 1)` of each copy with the other images, by kind."""
        is_other = np.arange(next(iter(self.by_kind.values())).shape[1]) != self.rows[:, None]
        return {name: scores[is_other].reshape(len(self.rows), -1) for name, scores in self.by_kind.items()}

    def calibrated(self, precision: float) -> Calibration:
        """Choose the lowest score of two near-duplicates.

        The pair of a copy and its original is right, and every other pair is wrong. Images that are as similar to the
        original as the median copy, or register as 90% of the copies do, are duplicates that the set has already: they
        do not count. An original with ten of them does not count either.

        The similarity is the least one of the stated precision. The registration is halfway between the highest refused
        score and the score that 97% of the copies reach, where that is higher: other images have other neighbors.
        """
        require_fraction(precision=precision)
        is_verified = self.floor is not None
        is_like = self.between(self) >= _alike(self.matched(), is_verified)
        is_like[np.arange(len(self.rows)), self.rows] = True
        is_clear = is_like.sum(axis=1) <= (CANDIDATES if is_verified else is_like.shape[1])
        matched = {name: values[is_clear] for name, values in self.matched().items()}
        matched_scores = np.concatenate(list(matched.values()))
        is_wrong = is_clear[:, None] & ~is_like
        images, without = int(is_clear.sum()), ABOVE if is_verified else None
        if not is_wrong.any():
            problem = f"none of its {len(self.rows)} images differs from the others as from its own copies"
            return Calibration(images=len(self.rows), registration=without, problem=problem)
        least = 0.0 if is_verified else -np.inf  # images that are no candidates have the score -1: they decide nothing
        wrong = np.concatenate([each[is_wrong & (each > least)] for each in self.by_kind.values()])
        threshold = _least_similarity(matched_scores, wrong, precision, least)
        if threshold > 1:
            problem = f"no score has a precision of {precision:g}: other images are as alike as copies"
            return Calibration(images=images, registration=without, problem=problem)
        if is_verified:
            threshold = _halfway(matched_scores, wrong, threshold)
        return Calibration(
            similarity=threshold if self.floor is None else self.floor,
            precision=_precision(matched_scores, wrong, threshold),
            recall={name: _recall(values >= threshold) for name, values in matched.items()},
            images=images,
            registration=threshold if is_verified else None,
        )


def score_copies(
    model: Embedder,
    data: LabeledSet,
    embeddings: np.ndarray,
    *,
    center: np.ndarray | float = 0.0,
    sample: int = 128,
    verify: bool = True,
    floor: float | None = None,
    seed: int = 0,
) -> CopyScores:
    """Make copies of a sample of the images, one of each kind in `COPIES`, and compare each with all images.

    The sample has different images with details, no images of one color. With `verify`, the ten nearest neighbors of a
    copy are candidates, whose score is the registration of their pixels; else scores are cosine similarities.

    Example: copies of noise, and the threshold that a precision of 0.99 gives.

        >>> images = np.random.default_rng(0).integers(0, 256, (30, 32, 32, 3), "uint8")
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.zeros(30, int), class_names=("noise",))
        >>> inputs = keras.Input((32, 32, 3))
        >>> model = keras.Model(inputs, keras.layers.Flatten()(inputs))
        >>> scores = tfdml.cleaning.score_copies(model, data, tfdml.models.embed(model, data), sample=20, verify=False)
        >>> sorted(scores.by_kind), scores.by_kind["jpeg"].shape
        (['crop', 'jpeg', 'resize', 'watermark'], (20, 30))
        >>> calibration = scores.calibrated(0.99)
        >>> float(calibration.precision), calibration.recall["jpeg"].value > 0.8
        (1.0, True)

    Args:
        model: model of the embeddings.
        data: images `(height, width, 3)` uint8, or files with a `load` such as `tfdml.datasets.Preprocessing`.
        embeddings: `(n, dim)` of `data`, less the center.
        center: `(dim,)`, subtracted from the embeddings of copies, such as the mean of all embeddings.
        sample: number of images to copy.
        verify: whether to verify candidates by their pixels.
        floor: the least similarity of candidates, such as the similarity of a calibration; None: the similarity that
            99% of the copies have.
        seed: of the sample and the copies.

    Returns:
        A record: `by_kind`, the scores `(copies, n)` of each kind, -1 for images that are no candidates; `copies` of
        each kind, as the model takes them; `rows` of their originals; and `floor`, None without `verify`. `matched()`
        and `mismatched()` split the scores. `calibrated(precision)` chooses a threshold: a record of `similarity`,
        `registration`, `precision`, `images` and `recall` by kind.
    """
    require_whole("sample", sample, 2)
    require_seed(seed)
    rows = different(data, np.random.default_rng(seed).permutation(len(data)), sample)
    received = f"{len(rows)} different {'image' if len(rows) == 1 else 'images'} with details"
    require(len(rows) > 1, received, "at least two, of which one is not a copy of the other")
    thumbnail_of = cache(lambda row: thumbnail(pixels_of(data, row)[0])) if verify else None
    return score_copies_of(rows, model, data, embeddings, center, thumbnail_of, floor, seed)


def different(data: LabeledSet, order: Iterable[int], sample: int) -> np.ndarray:
    """The first rows in an order whose images have details and differ, as many as a sample has, ascending."""
    rows: dict[bytes, int] = {}
    for row in order:
        pixels = pixels_of(data, row)[0]
        if has_details(thumbnail(pixels)):
            rows.setdefault(checksum_of_pixels(pixels), row)
        if len(rows) == sample:
            break
    return np.sort(np.array(list(rows.values()), np.int64))


def score_copies_of(
    rows: np.ndarray,
    model: Embedder,
    data: LabeledSet,
    embeddings: np.ndarray,
    center: np.ndarray | float,
    thumbnail_of: Callable[[int], Thumbnail] | None,
    floor: float | None,
    seed: int,
    batch_size: int = 64,
) -> CopyScores:
    """`score_copies` of the images of these rows; `thumbnail_of` is None without verification."""
    unit, products = l2_normalize(np.asarray(embeddings, np.float32)), {}
    rngs = {name: np.random.default_rng([seed, *name.encode()]) for name in COPIES}
    made = [_copies(data, row, rngs) for row in rows]
    copies = {name: np.stack([each[name][0] for each in made]) for name in COPIES}
    for name, images in copies.items():
        vectors = np.asarray(embed(model, images, batch_size=batch_size), np.float32)
        products[name] = l2_normalize(vectors - center) @ unit.T
    if thumbnail_of is None:
        return CopyScores(products, copies, rows, None, lambda scores: unit[scores.rows] @ unit.T)
    if floor is None:
        matched = [each[np.arange(len(rows)), rows] for each in products.values()]
        floor = float(np.quantile(matched, 1 - _CANDIDATE_RECALL))
    thumbnails = {name: [each[name][1] for each in made] for name in COPIES}
    scores = {name: _registered(each, floor, thumbnails[name], thumbnail_of) for name, each in products.items()}
    return CopyScores(scores, copies, rows, floor, partial(_between_originals, thumbnail_of=thumbnail_of))


def _registered(products, floor, thumbnails, thumbnail_of):
    """Scores of the candidates of copies, `(copies, n)`; -1 for other images."""
    scores = np.full(products.shape, -1.0)
    count = min(CANDIDATES, products.shape[1])
    columns = np.argpartition(-products, count - 1, axis=1)[:, :count]
    copy, column = np.nonzero(np.take_along_axis(products, columns, axis=1) >= floor)
    pairs = np.stack([copy, columns[copy, column]], axis=1)
    scores[tuple(pairs.T)] = verified(pairs, thumbnails.__getitem__, thumbnail_of)
    return scores


def _copies(data, row, rngs):
    """By kind, a copy of an image, of the shape that the model takes, and its thumbnail."""
    pixels, load = pixels_of(data, row)
    copies = {name: np.ascontiguousarray(copy(pixels, rngs[name])) for name, copy in COPIES.items()}
    return {name: (np.asarray(load(copy)), thumbnail(copy)) for name, copy in copies.items()}


def _between_originals(scores, thumbnail_of):
    """See `CopyScores.between`."""
    highest = np.max(list(scores.by_kind.values()), axis=0)
    is_like = highest >= _alike(scores.matched(), is_verified=True)
    is_like[np.arange(len(highest)), scores.rows] = False
    pairs, between = np.argwhere(is_like), np.full(highest.shape, -1.0)
    between[is_like] = verified(np.stack([scores.rows[pairs[:, 0]], pairs[:, 1]], axis=1), thumbnail_of)
    return between


def _alike(matched, is_verified):
    """The lowest score of images that are duplicates already; inf for none.

    Of verified ones, an original counts that half of its copies find: near-duplicates may hide it from the others.
    """
    scores = np.stack(list(matched.values()))
    if is_verified:
        scores = scores[:, (scores > 0).mean(axis=0) >= 0.5]
    return np.quantile(scores, _ALIKE_VERIFIED if is_verified else _ALIKE) if scores.size else np.inf


def _halfway(positive, negative, least):
    """Halfway between the highest score below the least one and the score that most copies reach; or the least one."""
    scores = np.concatenate([positive, negative])
    refused, reached = scores[scores < least].max(initial=0.0), float(np.quantile(positive, 1 - _KEPT_RECALL))
    return float((refused + reached) / 2) if reached >= least else least


def _least_similarity(positive, negative, precision, least=-np.inf):
    """The least similarity of this precision, above `least`; just above 1 if there is none."""
    values = np.concatenate([positive, negative])
    order = np.argsort(-values, kind="stable")
    values, is_right = values[order], (np.arange(len(values)) < len(positive))[order]
    ends = np.append(values[1:] < values[:-1], True)
    shares = np.cumsum(is_right) / np.arange(1, len(values) + 1)
    sufficient = np.flatnonzero(ends & (shares >= precision) & (values > least))
    return float(min(values[sufficient[-1]], 1)) if len(sufficient) else ABOVE


def _precision(positive, negative, similarity):
    counts = np.count_nonzero(positive >= similarity), np.count_nonzero(negative >= similarity)
    return counts[0] / sum(counts) if sum(counts) else 1.0


def _recall(is_copy):
    count = int(is_copy.sum())
    return Recall(count / len(is_copy), *binomial_interval(count, len(is_copy)))
