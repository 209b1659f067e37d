"""Near-duplicates, leaks, label suspects and outliers of a set, or of its parts."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tfdml._core.checks import names_of_labels, require, require_fraction
from tfdml.cleaning.calibration import score_copies
from tfdml.cleaning.findings import Finding, Findings
from tfdml.cleaning.pixel_checks import Thumbnails, candidates, verified
from tfdml.datasets import LabeledSet
from tfdml.embedding.in_memory import embed_loadable
from tfdml.embedding.to_disk import embed_cached, remove_cached
from tfdml.search import Exact, pair_groups, similar_pairs
from tfdml.search.duplicates.groups import nearest_copies
from tfdml.search.duplicates.pairs import SimilarPairs, TooManyPairsError
from tfdml.search.nearest import without_self
from tfdml.typing import Embedder, FilePath

_AGREEING = 3  # neighbors of a label suspect
_OUTLYING = 5  # nearest neighbors of an outlier
_DEVIATIONS = 5  # of an outlier from the median, in robust standard deviations
_LEAST_CLASS = 10  # images of a class that has its own median
_TO_STANDARD = 1.4826  # from the median absolute deviation of a normal distribution


def clean(
    model: Embedder,
    data: LabeledSet | Mapping[str, LabeledSet],
    *,
    similarity: float | None = None,
    precision: float = 0.99,
    sample: int = 128,
    verify: bool = True,
    approximate: bool | None = None,
    seed: int = 0,
    batch_size: int = 64,
    cache: FilePath | None = None,
) -> Findings:
    """List what to look at before a set is used; nothing is changed or deleted.

    * A leak is a pair of near-duplicates in two sets, such as training and test.
    * A duplicate is an image of a group of near-duplicates in one set, beside the first image of the group.
    * A label suspect is an image whose three nearest neighbors all have one other label.
    * An outlier is an image whose mean distance to its five nearest neighbors is more than five robust standard
      deviations above the median of its class, or, where that has fewer than ten images, of all images.
    * Images that cannot be read are listed, too.

    Embeddings are centered on their mean, but for outliers: without what all images have in common, each is far from
    the others. All embeddings are in memory. Near-duplicates are chosen among the nearest neighbors by a registration
    of their pixels (`register`), for which these images are read once more; with a similarity or without `verify`, by
    the cosine similarity alone.

    Example: noise with one image twice, compared by its pixels.

        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), "uint8")
        >>> images[7] = images[2]
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], 4), class_names=("ant", "bee"))
        >>> inputs = keras.Input((8, 8, 3))
        >>> model = keras.Model(inputs, keras.layers.Flatten()(inputs))
        >>> findings = tfdml.cleaning.clean(model, data, similarity=0.99)
        >>> [(finding.name, finding.other) for finding in findings.listed if finding.kind == "duplicate"]
        [('7', '2')]

    Args:
        model: model of the images, such as `copy_network()`; labels and outliers are judged by it, too.
        data: a labeled set, or labeled sets by name.
        similarity: cosine similarity of near-duplicates, which are not verified then; None: calibrated on known copies,
            see `score_copies`.
        precision: of the pairs, for the calibration.
        sample: number of images that are copied for the calibration.
        verify: whether near-duplicates are verified by their pixels.
        approximate: without verification, whether pairs are searched in near cells only, with a bound on their recall;
            None: from 50,000 images on.
        seed: of the calibration and the search.
        batch_size: number of images embedded at the same time.
        cache: folder to which embeddings are written every 16 batches, from which the same call resumes after an
            interruption. It stays. Damaged embeddings, and embeddings of other files, another model or batch size, are
            replaced with a warning.

    Returns:
        A record that prints as a summary: `listed`, findings with the fields `kind` ("leak", "duplicate", "label",
        "outlier" or "unreadable"), `name`, `split`, `label`, `other`, `other_split`, `other_label`, `score` and
        `suggestion`, leaks first; `images`, the number that was read; `similarity`; and `calibration` and `recall`,
        None where there is none.
    """
    require_fraction(precision=precision)
    sets = dict(data) if isinstance(data, Mapping) else {"": data}
    require(len(sets) > 0, "no sets", "a labeled set, or labeled sets by name")
    images = _Images(model, sets, batch_size, cache)
    calibration = None
    if similarity is None:
        scores = score_copies(
            model, images.largest, images.vectors[images.largest_rows], center=images.center, sample=sample,
            verify=verify, seed=seed, batch_size=batch_size,
        )  # fmt: skip
        calibration = scores.calibrated(precision)
        similarity = calibration.similarity
    registration = None if calibration is None else calibration.registration
    if registration is not None:
        pairs = _verified_pairs(images, similarity, registration)
        groups = pair_groups(pairs.rows, len(images.vectors))
    else:
        approximate = len(images.vectors) >= 50_000 if approximate is None else approximate
        groups, pairs = _similar_pairs(images, similarity, approximate, seed)
    findings = list(_copies(images, pairs)) if pairs else []
    rows = np.unique(groups)
    if len(rows) > 1:  # one image of each group of near-duplicates
        findings += [*_labels(images, rows), *_outliers(images, rows)]
    order = {kind: number for number, kind in enumerate(("leak", "duplicate", "label", "outlier", "unreadable"))}
    findings = sorted(findings + images.unreadable, key=lambda finding: order[finding.kind])
    recall = None if pairs is None else pairs.recall
    return Findings(tuple(findings), len(images.vectors), similarity, calibration, recall)


def _similar_pairs(images, similarity, approximate, seed):
    """Groups, and pairs of a similarity; None where it cannot be reached.

    A list of all pairs grows with the square of the copies of an image. So the exact join keeps two a row, and it takes
    the place of an approximate one that has too many.
    """
    if similarity > 1:
        return np.arange(len(images.vectors)), None
    with contextlib.suppress(TooManyPairsError):
        if approximate:
            pairs = similar_pairs(images.vectors, similarity, approximate=True, seed=seed)
            return pair_groups(pairs.rows, len(images.vectors)), pairs
    parts = np.unique(images.splits, return_inverse=True)[1]
    groups, *pairs = nearest_copies(images.vectors, similarity, parts)
    return groups, SimilarPairs(*pairs, None)


def _verified_pairs(images, floor, registration):
    """Candidates whose pixels agree, with their scores as similarities."""
    pairs = candidates(images.vectors, floor)
    scores = verified(pairs, images.thumbnails, images.thumbnails)
    return SimilarPairs(pairs[scores >= registration], scores[scores >= registration].astype(np.float32), None)


class _Images:
    """The images of all sets that can be read, one after the other, with centered embeddings."""

    def __init__(self, model, sets, batch_size, cache):
        vectors, self.names, self.splits, self.labels, self.unreadable, subsets = [], [], [], [], [], []
        for number, (split, data) in enumerate(sets.items()):
            require(len(data) > 0, f"the set {split!r} without images", "at least one")
            if cache is None:
                embeddings, rows, skipped = embed_loadable(model, data, batch_size)
            else:
                embeddings, rows, skipped = embed_cached(model, data, Path(cache) / str(number), batch_size)
            vectors.append(embeddings)
            subsets.append(data.take(rows))
            self.names += [str(row if data.names is None else data.names[row]) for row in rows.tolist()]
            self.labels += [name or "" for name in names_of_labels(subsets[-1])]
            self.splits += [split] * len(rows)
            self.unreadable += [Finding("unreadable", name, split, suggestion=reason) for _, name, reason in skipped]
        vectors = np.concatenate(vectors)
        require(len(vectors) > 1, f"{len(vectors)} image that can be read", "at least two")
        self.center = vectors.mean(axis=0)
        self.vectors = vectors - self.center
        self.thumbnails = Thumbnails(subsets)
        self.largest = max(subsets, key=len)
        start = sum(len(subset) for subset in subsets[: subsets.index(self.largest)])
        self.largest_rows = slice(start, start + len(self.largest))

    def finding(self, kind, row, other=None, score=None, suggestion=""):
        """A `Finding` of a row, and of another."""
        finding = Finding(kind, self.names[row], self.splits[row], self.labels[row], suggestion=suggestion)
        if score is not None:
            finding = finding._replace(score=round(float(score), 6))
        if other is None:
            return finding
        return finding._replace(other=self.names[other], other_split=self.splits[other], other_label=self.labels[other])


def remove_cache(cache: FilePath) -> None:
    """Remove the embeddings that `clean` wrote to a folder, and the folder if nothing else is in it."""
    for folder in Path(cache).expanduser().glob("[0-9]*"):
        remove_cached(folder)
    with contextlib.suppress(OSError):  # a user's file is in it
        Path(cache).expanduser().rmdir()


def _copies(images, pairs):
    """Leaks and duplicates, the most similar first; of a row only its most similar pair."""
    listed = set()
    for pair in np.argsort(-pairs.similarity, kind="stable").tolist():
        first, row = pairs.rows[pair].tolist()
        is_leak = images.splits[first] != images.splits[row]
        if (is_leak, row) in listed:
            continue
        listed.add((is_leak, row))
        same = images.labels[first] == images.labels[row] or "" in (images.labels[first], images.labels[row])
        advice = "remove it from one of the sets" if is_leak else "keep one of the two"
        suggestion = advice if same else f"one of the labels is wrong; {advice}"
        yield images.finding("leak" if is_leak else "duplicate", row, first, pairs.similarity[pair], suggestion)


def _labels(images, rows):
    """Images whose nearest neighbors all have one other label, the most certain first."""
    nearest, cosines = _neighbors(images.vectors[rows], rows, _AGREEING)
    for i in np.argsort(-cosines[:, 0], kind="stable") if cosines.shape[1] == _AGREEING else ():
        labels = {images.labels[other] for other in nearest[i]}
        if len(labels) == 1 and not labels & {"", images.labels[rows[i]]} and images.labels[rows[i]]:
            suggestion = f"check the label; its neighbors have {labels.pop()!r}"
            yield images.finding("label", rows[i], nearest[i, 0], cosines[i].mean(), suggestion)


def _outliers(images, rows):
    """Images that are far from their neighbors for their class, the farthest first."""
    nearest, cosines = _neighbors(images.vectors[rows] + images.center, rows, _OUTLYING)
    distances = 1 - cosines.mean(axis=1)
    limits = _limits(distances, np.array(images.labels)[rows])
    for i in np.argsort(-distances, kind="stable"):
        if distances[i] > limits[i]:
            yield images.finding("outlier", rows[i], nearest[i, 0], distances[i], "check that it belongs to the set")


def _limits(distances, labels):
    """The limit of each image: that of its class, or, in a small class, of all."""
    limits = np.full(len(distances), _limit(distances))
    for label in np.unique(labels):
        is_member = labels == label
        if is_member.sum() >= _LEAST_CLASS:
            limits[is_member] = _limit(distances[is_member])
    return limits


def _limit(distances):
    middle = np.median(distances)
    return middle + _DEVIATIONS * _TO_STANDARD * np.median(np.abs(distances - middle))


def _neighbors(vectors, rows, count):
    """The nearest neighbors of each vector, at most `count`, as rows, and their cosines."""
    count = min(count, len(rows) - 1)
    columns, cosines = Exact(vectors).search(vectors, count + 1)
    return without_self(rows[columns], cosines, rows)
