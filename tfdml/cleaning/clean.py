"""Near-duplicates, leaks, label suspects and outliers of a set, or of its parts."""

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from tfdml._core.checks import names_of_labels, require, require_fraction, require_seed, require_whole
from tfdml._core.terminal import show_stage
from tfdml.cleaning import pixel_checks
from tfdml.cleaning.calibration import ABOVE, Calibration, different, score_copies_of
from tfdml.cleaning.findings import Finding, Findings
from tfdml.datasets import LabeledSet
from tfdml.datasets.images.beside import Beside
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
    """List what to look at before you use a set; it changes and deletes nothing.

    * A leak is a pair of near-duplicates in two sets, such as training and test; a duplicate is one in a set.
    * A label suspect is an image whose three nearest neighbors all have one other label.
    * An outlier is an image whose mean distance to its five nearest neighbors is more than five robust standard
      deviations above the median of its class, or, where that has fewer than ten images, of all images.
    * Images that cannot be read are listed, too.

    One image stands for equal ones: files, or pixels where they are verified. They are near-duplicates of the score 1.
    A picture that the sets have ten times as often as the median one is a placeholder. The result lists it, and it
    changes no other finding. With verification, so are its near copies, the picture saved again at another size or
    quality. Images of several labels are no label suspects, nor neighbors of one; images without details, such as one
    color, neither, unless half of the images have none.

    Embeddings are relative to their mean, but for outliers: without what all images have in common, each is far from
    the others. A registration of pixels (`register`) chooses near-duplicates among the nearest neighbors; with a
    similarity or without `verify`, by the cosine similarity alone. It decodes each image once, an image of the
    calibration twice. Memory holds all embeddings and, for the registration, 16 kB per image. Where the calibration
    cannot tell copies from other images, the result says so, and lists only equal images.

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
        model: model of the images, such as `copy_network()`; it judges labels and outliers, too.
        data: a labeled set, or labeled sets by name.
        similarity: cosine similarity of near-duplicates, without verification; None: calibrated on known copies, see
            `score_copies`.
        precision: of the pairs, for the calibration.
        sample: number of images to copy for the calibration.
        verify: whether to verify near-duplicates by their pixels.
        approximate: without verification, whether to search pairs in near cells only, with a bound on their recall;
            None: from 50,000 images on.
        seed: of the calibration and the search.
        batch_size: number of images embedded at the same time.
        cache: folder for embeddings, written every 16 batches; the same call resumes from it. It stays. The call
            replaces damaged embeddings, and embeddings of other files, models or batch sizes, with a warning.

    Returns:
        A record that prints as a summary: `listed`, findings with the fields `kind` ("leak", "duplicate", "label",
        "outlier" or "unreadable"), `name`, `split`, `label`, `other`, `other_split`, `other_label`, `score` and
        `suggestion`, leaks first; `images`, the number that was read; `similarity` of near-duplicates or candidates,
        above 1 where the calibration cannot tell; and `calibration` and `recall`, None where there is none.
    """
    require_fraction(precision=precision)
    require_whole("sample", sample, 2)
    require_seed(seed)
    sets = dict(data) if isinstance(data, Mapping) else {"": data}
    require(len(sets) > 0, "no sets", "a labeled set, or labeled sets by name")
    images = _Images(model, sets, batch_size, cache, verify and similarity is None)
    calibration, registration = None, None
    if similarity is None:
        calibration = _calibration(images, model, precision, sample, verify, seed, batch_size)
        similarity, registration = calibration.similarity, calibration.registration
    if registration is not None:
        pairs = _verified_pairs(images, similarity, registration)
        groups = pair_groups(pairs.rows, len(images.rows))
    else:
        approximate = len(images.rows) >= 50_000 if approximate is None else approximate
        groups, pairs = _similar_pairs(images, similarity, approximate, seed)
    findings = list(_copies(images, pairs))
    groups = groups[images.number]
    firsts, counts = np.unique(groups, return_counts=True)  # one image of each group of near-duplicates
    firsts = firsts[counts <= pixel_checks.OFTEN * np.median(counts)]
    if len(firsts) > 1:
        rows, is_telling = images.rows[firsts], images.is_telling[firsts]
        labels = np.unique(images.labels, return_inverse=True)[1]
        names = np.unique(np.stack([groups, labels])[:, images.labels != ""], axis=1)[0]
        has_label = np.bincount(names, minlength=len(images.rows))[firsts] == 1
        findings += [*_labels(images, rows[is_telling & has_label]), *_outliers(images, rows, is_telling)]
    order = {kind: number for number, kind in enumerate(("leak", "duplicate", "label", "outlier", "unreadable"))}
    findings = sorted(findings + images.unreadable, key=lambda finding: order[finding.kind])
    recall = None if pairs is None else pairs.recall
    return Findings(tuple(findings), len(images.vectors), similarity, calibration, recall)


def _calibration(images, model, precision, sample, verify, seed, batch_size):
    """The calibration on the set with the most different images; checksums draw them, so more images change few."""
    rows = images.rows[images.is_ordinary]
    splits = np.repeat(np.arange(len(images.subsets)), [len(data) for data in images.subsets])
    largest = np.bincount(splits[rows]).argmax()
    rows = rows[splits[rows] == largest]
    subset = images.subsets[largest].take(rows - splits.searchsorted(largest))
    keys = [hashlib.sha256(f"{seed} ".encode() + images.contents[row]).digest() for row in rows.tolist()]
    order = sorted(range(len(rows)), key=keys.__getitem__)
    if verify:
        with_details = (row for row in order if pixel_checks.has_details(images.thumbnails[rows[row]]))
        copied = np.array(sorted(islice(with_details, sample)), np.int64)
    else:
        copied = different(subset, order, sample)
    if len(copied) < 2:
        problem = (
            f"{len(copied)} different {'image' if len(copied) == 1 else 'images'} with details, expected at least two"
        )
        return Calibration(images=len(copied), registration=ABOVE if verify else None, problem=problem)
    thumbnail_of = (lambda row: images.thumbnails[rows[row]]) if verify else None
    vectors = images.vectors[rows] - images.center
    scores = score_copies_of(copied, model, subset, vectors, images.center, thumbnail_of, None, seed, batch_size)
    return scores.calibrated(precision)


def _similar_pairs(images, similarity, approximate, seed):
    """Groups, and pairs of a similarity; None where it cannot be reached.

    A list of all pairs grows with the square of the copies of an image. The exact join keeps two pairs per row, and
    replaces an approximate one that has too many.
    """
    vectors, splits = images.vectors[images.rows] - images.center, images.splits[images.rows]
    if similarity > 1:
        return np.arange(len(vectors)), None
    with contextlib.suppress(TooManyPairsError):
        if approximate:
            pairs = similar_pairs(vectors, similarity, approximate=True, seed=seed)
            return pair_groups(pairs.rows, len(vectors)), pairs
    groups, *pairs = nearest_copies(vectors, similarity, np.unique(splits, return_inverse=True)[1])
    return groups, SimilarPairs(*pairs, None)


def _verified_pairs(images, floor, registration):
    """Near copies of placeholders, and candidates whose pixels agree, with their scores as similarities."""
    vectors = images.vectors[images.rows] - images.center
    is_query = images.is_telling.copy()
    is_query[images.copies.rows[:, 1]] = False
    pairs = pixel_checks.candidates(vectors, floor, np.flatnonzero(is_query), np.flatnonzero(images.is_ordinary))
    scores = pixel_checks.verified(images.rows[pairs], images.thumbnails.__getitem__)
    rows = np.concatenate([images.copies.rows, pairs[scores >= registration]])
    similarity = np.concatenate([images.copies.similarity, scores[scores >= registration]]).astype(np.float32)
    return SimilarPairs(rows, similarity, None)


class _Images:
    """The images of all sets that can be read, one after the other.

    `rows` are the first rows of the contents, and `number` is the content of each row. `copies` are pairs of contents
    that are near copies of a placeholder. Contents with details are `is_telling`, and `is_ordinary` if they are no
    placeholders. `center` is the mean embedding of the ordinary ones.
    """

    def __init__(self, model, sets, batch_size, cache, is_verified):
        vectors, self.names, splits, labels, self.unreadable, self.subsets = [], [], [], [], [], []
        for number, (split, data) in enumerate(sets.items()):
            require(len(data) > 0, f"the set {split!r} without images", "at least one")
            read = replace(data, load=Beside(data.load, pixel_checks.description)) if is_verified else data
            embedder = pixel_checks.Describing(model) if is_verified else model
            keep = embed_loadable if cache is None else partial(embed_cached, folder=Path(cache) / str(number))
            embeddings, rows, skipped = keep(embedder, read, batch_size=batch_size)
            vectors.append(embeddings)
            self.subsets.append(data.take(rows))
            self.names += [str(row if data.names is None else data.names[row]) for row in rows.tolist()]
            labels += [name or "" for name in names_of_labels(self.subsets[-1])]
            splits += [split] * len(rows)
            self.unreadable += [Finding("unreadable", name, split, suggestion=reason) for _, name, reason in skipped]
        self.splits, self.labels = np.array(splits), np.array(labels)
        show_stage("images embedded", len(self.names))
        require(len(self.names) > 1, f"{len(self.names)} image that can be read", "at least two")
        self._compare(vectors, is_verified)

    def _compare(self, vectors, is_verified):
        """Find the equal images, and those that occur too often."""
        if is_verified:
            vectors, thumbnails, contents = zip(*map(pixel_checks.split_descriptions, vectors), strict=True)
            self.thumbnails, self.contents = list(chain(*thumbnails)), list(chain(*contents))
        else:
            self.contents = pixel_checks.checksums(self.subsets)
        self.vectors, first = np.concatenate(vectors), pixel_checks.first_rows(self.contents)
        self.rows, self.number, counts = np.unique(first, return_inverse=True, return_counts=True)
        distinct = [self.thumbnails[row] for row in self.rows] if is_verified else []
        self.copies = pixel_checks.placeholder_copies(distinct, counts)
        groups = pair_groups(self.copies.rows, len(self.rows))
        sizes = np.bincount(groups, counts)
        self.is_ordinary = (sizes <= pixel_checks.OFTEN * np.median(sizes[sizes > 0]))[groups]
        self.is_telling = np.ones(len(self.rows), bool)
        if is_verified:
            self.is_telling = pixel_checks.are_telling(distinct, self.is_ordinary)
        self.is_ordinary &= self.is_telling
        self.center = self.vectors[self.rows[self.is_ordinary]].mean(axis=0)

    def finding(self, kind, row, other, score, suggestion):
        """A `Finding` of a row, and of another."""
        named = [(self.names[each], str(self.splits[each]), str(self.labels[each])) for each in (row, other)]
        return Finding(kind, *named[0], *named[1], round(float(score), 6), suggestion)


def remove_cache(cache: FilePath) -> None:
    """Remove the embeddings that `clean` wrote to a folder, and the folder if nothing else is in it."""
    for folder in Path(cache).expanduser().glob("[0-9]*"):
        remove_cached(folder)
    with contextlib.suppress(OSError):  # a user's file is in it
        Path(cache).expanduser().rmdir()


def _copies(images, pairs):
    """Leaks and duplicates, the most similar first; of a row only its most similar pair."""
    listed = set()
    for first, row, similarity in _pairs_of_rows(images, pairs):
        is_leak = images.splits[first] != images.splits[row]
        if (is_leak, row) in listed:
            continue
        listed.add((is_leak, row))
        same = images.labels[first] == images.labels[row] or "" in (images.labels[first], images.labels[row])
        advice = "remove it from one of the sets" if is_leak else "keep one of the two"
        suggestion = advice if same else f"one of the labels is wrong; {advice}"
        yield images.finding("leak" if is_leak else "duplicate", row, first, similarity, suggestion)


def _pairs_of_rows(images, pairs):
    """Equal images, then pairs of contents, the most similar first: a first row of a set, a later row, and the score.

    Of the rows of a content, only the first one of each set is the other image of a pair.
    """
    members = np.split(np.argsort(images.number, kind="stable"), np.cumsum(np.bincount(images.number))[:-1])
    firsts = [rows[np.sort(np.unique(images.splits[rows], return_index=True)[1])].tolist() for rows in members]
    both = [(number, number, 1.0) for number, rows in enumerate(members) if len(rows) > 1]
    for pair in () if pairs is None else np.argsort(-pairs.similarity, kind="stable").tolist():
        (a, b), similarity = pairs.rows[pair].tolist(), pairs.similarity[pair]
        both += [(a, b, similarity), (b, a, similarity)]
    for a, b, similarity in both:
        for row in members[b].tolist():
            yield from ((first, row, similarity) for first in firsts[a] if first < row)


def _labels(images, rows):
    """Images whose nearest neighbors all have one other label, the most certain first."""
    if len(rows) <= _AGREEING:
        return
    vectors = images.vectors[rows]
    nearest, cosines = _neighbors(vectors - vectors.mean(axis=0), rows, np.ones(len(rows), bool), _AGREEING)
    for i in np.argsort(-cosines[:, 0], kind="stable"):
        labels = {images.labels[other] for other in nearest[i]}
        if len(labels) == 1 and not labels & {"", images.labels[rows[i]]} and images.labels[rows[i]]:
            suggestion = f"check the label; its neighbors have {str(labels.pop())!r}"
            yield images.finding("label", rows[i], nearest[i, 0], cosines[i].mean(), suggestion)


def _outliers(images, rows, is_telling):
    """Images that are far from their telling neighbors for those of their class, the farthest first."""
    nearest, cosines = _neighbors(images.vectors[rows], rows, is_telling, _OUTLYING)
    distances = 1 - cosines.mean(axis=1)
    limits = _limits(distances, images.labels[rows], is_telling)
    for i in np.argsort(-distances, kind="stable"):
        if distances[i] > limits[i]:
            yield images.finding("outlier", rows[i], nearest[i, 0], distances[i], "check that it belongs to the set")


def _limits(distances, labels, is_telling):
    """The limit of each image: the limit of the telling images of its class, or, where they are few, of all."""
    limits = np.full(len(distances), _limit(distances[is_telling]))
    for label in np.unique(labels):
        is_member = labels == label
        if (is_member & is_telling).sum() >= _LEAST_CLASS:
            limits[is_member] = _limit(distances[is_member & is_telling])
    return limits


def _limit(distances):
    middle = np.median(distances)
    return middle + _DEVIATIONS * _TO_STANDARD * np.median(np.abs(distances - middle))


def _neighbors(vectors, rows, is_telling, count):
    """The nearest telling neighbors of each vector, at most `count`, as rows, and their cosines."""
    gallery = rows[is_telling]
    count = min(count, len(gallery) - 1)
    index = Exact(vectors[is_telling], max_bytes=pixel_checks.SEARCH_BYTES)
    columns, cosines = index.search(vectors, count + 1)
    return without_self(gallery[columns], cosines, rows)
