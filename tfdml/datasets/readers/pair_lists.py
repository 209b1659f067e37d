"""Lists of pairs for verification: in the format of Labeled Faces in the Wild, and drawn from a labeled set."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, require, require_seed, require_whole
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.readers.text import is_whole, read_lines

_GRADE = re.compile(r"-?[0-9]{1,9}")
_FORM = """
10<tab>300                                        folds, and matched pairs per fold; as many mismatched pairs follow
Abel_Pacheco<tab>1<tab>4                          a matched pair: name, number, number
Abdel_Madi_Shabneh<tab>1<tab>Dean_Barker<tab>1    a mismatched pair: name, number, name, number"""


@dataclass(frozen=True, eq=False, repr=False)
class PairList:
    """Pairs of images, and the fold of each pair.

    Each image occurs once in `names`, to embed it once; `tfdml.datasets.public.lfw` shows the use.

    Attributes:
        names: `(images,)` str, sorted paths below the folder of the images; None for pairs of rows of a set.
        first, second: `(pairs,)` int64, the images of each pair, as indices into `names`, or as rows of the set.
        same: `(pairs,)` booleans, whether both images have the same class, such as a person.
        folds: `(pairs,)` int64, from 0; None for a list without folds.
    """

    names: np.ndarray | None
    first: np.ndarray
    second: np.ndarray
    same: np.ndarray
    folds: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.same)

    def __repr__(self) -> str:
        folds = "" if self.folds is None else f" in {len(np.unique(self.folds)):,} folds"
        return f"<PairList: {len(self):,} pairs{folds}, {np.count_nonzero(self.same):,} of which match>"


def lfw_pairs(path: str | os.PathLike[str]) -> PairList:
    """The pairs of Labeled Faces in the Wild, in the order of the list.

    * `pairs.txt`, View 2: the first line holds the number of folds and the number n of matched pairs per fold. For each
      fold n lines of matched pairs follow, then n lines of mismatched pairs.
    * `pairsDevTrain.txt` and `pairsDevTest.txt`, View 1: the first line holds n alone, and there are no folds.

    A name and a number make a path, as in `Abel_Pacheco/Abel_Pacheco_0004.jpg`. It opens no image. Keep all pairs, even
    where a detector finds no face: the folds of the protocol hold them.

    Example: two folds, each with one matched and one mismatched pair.

        >>> with open("pairs.txt", "w") as file:
        ...     for line in ("2 1", "Ann 1 3", "Ann 2 Zed 1", "Bob 1 2", "Bob 2 Zed 1"):
        ...         print(*line.split(), sep=chr(9), file=file)  # words between tabs
        >>> pairs = tfdml.datasets.public.lfw_pairs("pairs.txt")
        >>> pairs.names[pairs.first].tolist()
        ['Ann/Ann_0001.jpg', 'Ann/Ann_0002.jpg', 'Bob/Bob_0001.jpg', 'Bob/Bob_0002.jpg']
        >>> pairs.same, pairs.folds
        (array([ True, False,  True, False]), array([0, 0, 1, 1]))

    Args:
        path: the list.

    Returns:
        `PairList` with sorted names, and with 6,000 pairs of 7,701 images for the original `pairs.txt`.

    Source: as `lfw`.
    """
    header, *lines = [line.split() for line in read_lines(path)] or [[]]
    while lines and not lines[-1]:
        lines.pop()
    folds, matched = _counts(path, header)
    expected = 2 * (folds or 1) * matched
    require(
        len(lines) == expected,
        f"{str(path)!r} with {len(lines):,} pairs",
        f"{expected:,}, which is {folds or 1} times {matched:,} matched and {matched:,} mismatched pairs by its first "
        "line. The list is incomplete, or folds are missing",
    )
    same = np.tile(np.repeat([True, False], matched), folds or 1)
    pairs = [_pair(path, *entry) for entry in zip(range(2, 2 + expected), lines, same.tolist(), strict=True)]
    names, indices = np.unique(np.array(pairs), return_inverse=True)
    first, second = indices.reshape(-1, 2).T
    return PairList(names, first, second, same, np.repeat(np.arange(folds), 2 * matched) if folds else None)


def judged_pairs(path: str | os.PathLike[str], ids: npt.ArrayLike) -> PairList:
    """The judgements of a search as pairs of items: lines "query 0 document grade", in TREC form.

    The page of `tfdml serve` saves them as `judgements.tsv`, and `tfdml compare --qrels` reads them. A query that is no
    item, such as a file that was dropped on the page, is in no pair. `samplers.ListSampler` draws such pairs.

    Example: of two answers to item 7, one is right.

        >>> with open("judgements.tsv", "w") as file:
        ...     for line in ("7 0 9 1", "7 0 8 0"):
        ...         print(*line.split(), sep=chr(9), file=file)  # words between tabs
        >>> pairs = tfdml.datasets.judged_pairs("judgements.tsv", ids=[7, 8, 9])
        >>> pairs.first, pairs.second, pairs.same
        (array([0, 0]), array([2, 1]), array([ True, False]))

    Args:
        path: the file. Ids are percent-encoded where they have other characters than letters and digits.
        ids: `(n,)` ids of the items, such as `index.ids`.

    Returns:
        `PairList` of rows of `ids`, in the order of the lines; a grade above 0 is a match.

    Raises:
        ValueError: a line of another form; a document that is no item: it is gone, or of another index; no pair.
    """
    rows = {str(item): row for row, item in enumerate(np.asarray(ids).tolist())}
    lines = [line.split() for line in read_lines(path)]
    for number, line in enumerate(lines, 1):
        is_judgement = len(line) in (0, 4) and (not line or _GRADE.fullmatch(line[3]) is not None)
        expected = "a judgement: query 0 document grade"
        require(is_judgement, f"line {number} of {str(path)!r}: {' '.join(line)!r}", expected)
    judged = [(unquote(line[0]), unquote(line[2]), int(line[3]) > 0) for line in lines if line]
    gone = [document for _, document, _ in judged if document not in rows]
    received = f"{str(path)!r} with {len(gone)} judgements of items that are gone, first {gone[:1]}"
    require(not gone, received, "items of ids. Remove these lines, or pass the ids of that time")
    pairs = [(rows[query], rows[document], same) for query, document, same in judged if query in rows]
    require(len(pairs) > 0, f"{str(path)!r} without a judgement of a query that is an item", "one at least")
    first, second, same = map(np.array, zip(*pairs, strict=True))
    return PairList(None, first, second, same)


def _counts(path, header):
    """Numbers of folds, None without folds, and of matched pairs per fold, from the first line."""
    numbers = [int(word) for word in header if is_whole(word)]
    is_header = len(numbers) == len(header) in (1, 2) and min(numbers) > 0
    _require_form(path, 1, header, is_header, "the numbers of folds and of matched pairs per fold, or the latter alone")
    return numbers if len(numbers) == 2 else (None, numbers[0])


def _pair(path, number, line, same):
    first, second = line[:2], line[:1] + line[2:] if same else line[2:]
    is_pair = len(line) == 4 - same and _is_image(*first) and _is_image(*second) and (line[0] != line[2] or same)
    kind = "a matched pair: name, number, number" if same else "a mismatched pair: name, number, another name, number"
    _require_form(path, number, line, is_pair, kind)
    return [f"{person}/{person}_{int(image):04}.jpg" for person, image in (first, second)]


def _require_form(path, number, line, is_valid, expected):
    require(is_valid, f"line {number} of {str(path)!r}: {' '.join(line)!r}", f"{expected}, as in{_FORM}\n")


def _is_image(person, number):
    """Whether the two words name an image; a slash would lead to another folder."""
    return number.isdecimal() and "/" not in person and person != ".."


def verification_pairs(
    data: LabeledSet | npt.ArrayLike, *, folds: int = 10, matched: int = 300, seed: int = 0
) -> PairList:
    """Pairs of a labeled set in folds without a common class, in the order of the list of LFW.

    Folds have random classes, in equal numbers. In each fold, a matched pair is two examples of a class, and a
    mismatched pair one example of each of two classes; classes are drawn first, each with the same probability, then
    their examples. No pair occurs twice, in either order. They are used as the pairs of `tfdml.datasets.public.lfw`.

    Example: six classes of two images in two folds; the classes of one fold are not in the other.

        >>> labels = np.repeat(np.arange(6), 2)
        >>> pairs = tfdml.datasets.verification_pairs(labels, folds=2, matched=2, seed=0)
        >>> pairs.same
        array([ True,  True, False, False,  True,  True, False, False])
        >>> [sorted(set(labels[pairs.first[pairs.folds == fold]].tolist())) for fold in (0, 1)]
        [[1, 2, 4], [0, 3]]

    Args:
        data: `LabeledSet`, or its labels `(n,)`, whole numbers.
        folds: number of folds.
        matched: number of matched pairs per fold; there are as many mismatched ones.
        seed: whole number; the same labels, folds and seed give the same pairs.

    Raises:
        ValueError: fewer than two classes per fold, or a fold with fewer different pairs of a kind than `matched`.
    """
    require_whole("folds", folds, 1)
    require_whole("matched", matched, 1)
    require_seed(seed)
    labels = as_ids(data.labels if isinstance(data, LabeledSet) else data, "labels")
    random = np.random.default_rng([seed % 2**64, folds, matched])
    classes = random.permutation(np.unique(labels))
    expected = f"at least {2 * folds}, two per fold. Lower folds"
    require(len(classes) >= 2 * folds, f"{len(classes)} classes for folds={folds}", expected)
    drawn = [_pairs_of_fold(labels, fold, matched, random) for fold in np.array_split(classes, folds)]
    first, second = np.concatenate(drawn).T
    return PairList(
        names=None,
        first=first,
        second=second,
        same=np.tile(np.repeat([True, False], matched), folds),
        folds=np.repeat(np.arange(folds), 2 * matched),
    )


def _pairs_of_fold(labels, classes, matched, random):
    """`(2 * matched, 2)` rows: the matched pairs of these classes, then the mismatched ones."""
    rows = [np.flatnonzero(labels == label) for label in classes.tolist()]
    sizes = np.array([len(members) for members in rows])
    num_matched = int((sizes * (sizes - 1) // 2).sum())
    _require_enough(num_matched, matched, "matched")
    _require_enough(int(sizes.sum() * (sizes.sum() - 1) // 2) - num_matched, matched, "mismatched")
    several = [members for members in rows if len(members) > 1]

    def draw_matched():
        return random.choice(several[random.integers(len(several))], 2, replace=False)

    def draw_mismatched():
        return [random.choice(rows[label]) for label in random.choice(len(rows), 2, replace=False)]

    return np.concatenate([_distinct(draw, matched) for draw in (draw_matched, draw_mismatched)])


def _require_enough(pairs, matched, kind):
    expected = f"at least matched={matched}. Lower matched or folds"
    require(pairs >= matched, f"a fold with {pairs} different {kind} pairs", expected)


def _distinct(draw: Callable[[], npt.ArrayLike], number: int) -> np.ndarray:
    """`(number, 2)` pairs that are different, in either order, as drawn."""
    pairs: dict[tuple[int, ...], np.ndarray] = {}
    while len(pairs) < number:
        pair = np.asarray(draw())
        pairs.setdefault(tuple(np.sort(pair).tolist()), pair)
    return np.stack(list(pairs.values()))
