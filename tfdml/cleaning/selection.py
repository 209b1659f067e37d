"""Which examples to label next: typical, diverse or uncertain ones, by their embeddings."""

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import are_all_the_same, as_ids, as_vectors, require, require_seed, require_whole
from tfdml.search import Exact, Whitening
from tfdml.search.blocks import slices
from tfdml.search.scores import l2_normalize

RULES = ("typical", "diverse", "uncertain")
_VOTES = 10  # labeled neighbors that may disagree
_COMPONENTS, _SHRINKAGE = 48, 0.1  # chosen on the validation sets of studies/labeling.py, with the power 3
_SAMPLE, _BATCH = 10_000, 256  # examples to represent, and candidates that are compared with them at the same time


class Selection(NamedTuple):
    """Examples to label, in order: see `select`."""

    rows: np.ndarray
    rules: tuple[str, ...]
    similarity: np.ndarray


def select(
    embeddings: npt.ArrayLike,
    count: int,
    *,
    labels: npt.ArrayLike | None = None,
    rule: str = "typical",
    similarity: float = 0.98,
    seed: int = 0,
) -> Selection:
    """Choose the examples whose labels are worth most, one after the other.

    * "typical": the example that makes the labeled and chosen ones represent all others best (facility location): the
      sum, over examples, of the similarity to the nearest of them grows most.
    * "diverse": the example that is least similar to all that have a label or were chosen before (k-center).
    * "uncertain": the example whose labeled neighbors disagree most: the cosine of the nearest one is least above the
      cosine of the nearest one of another class.
    * "all": the three in turn; without labels, the first two.

    No two examples are near copies: an example as similar as `similarity` to a labeled or a chosen one is left out.
    Embeddings are relative to their mean. Time grows with n x (count + labels) x dim; there is no n x n matrix.

    Example: three clusters; the first is labeled.

        >>> x = np.repeat(np.eye(3), 4, axis=0) + np.random.default_rng(0).normal(size=(12, 3)) / 20
        >>> chosen = tfdml.cleaning.select(x, 2, labels=[0, -1, -1, -1] + 8 * [-1], similarity=1)
        >>> sorted((chosen.rows // 4).tolist())
        [1, 2]

    Args:
        embeddings: `(n, dim)` floats, of a model that need not know the classes.
        count: number of examples to choose.
        labels: `(n,)` integer class ids, -1 for none; None: no example has a label.
        rule: "typical", "diverse", "uncertain" or "all".
        similarity: cosine of near copies, above 0 and up to 1.
        seed: of the 10,000 examples to represent, where there are more.

    Returns:
        A record: `rows`, `(count,)` int64, in the order of their choice; `rules`, the rule that chose each; and
        `similarity`, `(count,)`, the cosine of each to the nearest labeled or earlier one, NaN for the first of all.

    Raises:
        ValueError: fewer than `count` examples without a label that are no near copies; embeddings that are all the
            same; "uncertain" without two classes.
    """
    x = as_vectors(embeddings, "embeddings")
    classes = np.full(len(x), -1) if labels is None else as_ids(labels, "labels", len(x))
    require(rule in (*RULES, "all"), f"rule={rule!r}", f"one of {', '.join(RULES)} or all")
    require_seed(seed)
    unlabeled = int((classes < 0).sum())
    require_whole("count", count, 1)
    require(count <= unlabeled, f"count={count}", f"{unlabeled} at most: so many examples have no label")
    require(0 < similarity <= 1, f"similarity={similarity}", "a cosine above 0, 1 at most")
    require(not are_all_the_same(x), "embeddings that are all the same", "different images, or another model")
    is_telling = len(np.unique(classes[classes >= 0])) > 1
    require(is_telling or rule != "uncertain", "rule='uncertain' without labels of two classes", "'typical' at first")
    rules = [name for name in RULES if rule in (name, "all") and (is_telling or name != "uncertain")]
    x = relative_to_mean(x)
    return _greedy(x, classes, similarity, {name: _SCORES[name](x, classes, seed) for name in rules}, count)


def _greedy(x, labels, similarity, scores, count):
    """The open example with the highest score, again and again, by each rule in turn.

    Scores are functions of the rows that are labeled or chosen, of the cosine of each example to the nearest of them,
    and of whether an example is open: neither one of them nor a near copy.
    """
    names = list(itertools.islice(itertools.cycle(scores), count))
    rows, limit = np.flatnonzero(labels >= 0).tolist(), similarity - 1e-6  # rounding
    nearest = _searched(x[rows], x, 1)[1][:, 0] if rows else np.full(len(x), -np.inf, np.float32)
    is_open, cosines = (labels < 0) & (nearest < limit), []
    for number, name in enumerate(names):
        received = f"count={count}, but only {number} examples are no near copies of labeled or of chosen ones"
        require(bool(is_open.any()), received, "a lower count, or a higher similarity")
        row = int(np.where(is_open, scores[name](rows, nearest, is_open), -np.inf).argmax())
        cosines.append(nearest[row] if rows else np.nan)
        rows.append(row)
        np.maximum(nearest, x @ x[row], out=nearest)
        is_open &= nearest < limit
        is_open[row] = False
    return Selection(np.array(rows[-count:], np.int64), tuple(names), np.array(cosines, np.float32))


def _typical(x, labels, seed):
    """Scores: how much an example adds to sum_i max_s max(0, cos(z_i, z_s))^3, where s are labeled or chosen.

    z are whitened principal components, and i a sample. No gain grows with s (the sum is submodular): what it was is a
    bound, and only the examples with the highest bounds are measured again.

    Source: Wei, Iyer, Bilmes, Submodularity in Data Subset Selection and Active Learning, ICML 2015; for the bounds
    Minoux, Accelerated Greedy Algorithms for Maximizing Submodular Set Functions, 1978.
    """
    drawn = np.sort(np.random.default_rng(seed).permutation(len(x))[:_SAMPLE])
    whitened = Whitening.learn(x[drawn], dim=min(_COMPONENTS, x.shape[1]), shrinkage=_SHRINKAGE)
    z = np.concatenate([whitened(x[rows]) for rows in slices(len(x), _SAMPLE)])
    sample = z[drawn].T
    coverage, num_covered = np.zeros(sample.shape[1], np.float32), 0
    gains = np.full(len(z), np.inf, np.float32)

    def similarities(rows):
        cosines = np.maximum(z[rows] @ sample, 0)
        return cosines * cosines * cosines  # a power takes longer

    def scores(covered, nearest, is_open):
        nonlocal coverage, num_covered
        for block in slices(len(covered) - num_covered, _BATCH):
            coverage = np.maximum(coverage, similarities(covered[num_covered:][block]).max(axis=0))
        num_covered, is_bound = len(covered), is_open.copy()
        gains[~is_bound] = -np.inf
        while is_bound[gains.argmax()]:
            bounds = np.where(is_bound, gains, -np.inf)
            rows = np.argpartition(-bounds, min(_BATCH, len(z)) - 1)[:_BATCH]
            rows = rows[is_bound[rows]]
            gains[rows] = np.maximum(similarities(rows) - coverage, 0).sum(axis=1)
            is_bound[rows] = False
        return gains

    return scores


def _diverse(x, labels, seed):
    """Scores: the least similar example has the highest; at first the one that is like most others.

    Source: Sener, Savarese, Active Learning for Convolutional Neural Networks: A Core-Set Approach, ICLR 2018.
    """
    first = x @ x.mean(axis=0)
    return lambda covered, nearest, is_open: -nearest if covered else first


def _uncertain(x, labels, seed):
    """Scores: minus the margin of cosines between the nearest label and the nearest one of another class.

    Source: Scheffer, Decomain, Wrobel, Active Hidden Markov Models for Information Extraction, IDA 2001.
    """
    labeled = np.flatnonzero(labels >= 0)
    columns, cosines = _searched(x[labeled], x, min(_VOTES, len(labeled)))
    voted = labels[labeled[columns]]
    is_other = voted != voted[:, :1]
    other = np.where(is_other.any(axis=1), is_other.argmax(axis=1), -1)  # the last one, where all agree
    margin = cosines[:, 0] - cosines[np.arange(len(x)), other]
    return lambda *_: -margin


def relative_to_mean(x: np.ndarray) -> np.ndarray:
    """Rows less their mean, of length 1: `(n, dim)` float32."""
    result = x - x.mean(axis=0)
    for rows in slices(len(x), _SAMPLE):
        result[rows] = l2_normalize(result[rows])
    return result


def _searched(gallery, queries, k):
    """Neighbors and cosines of queries; blocks of these, because a search copies them."""
    index = Exact(gallery)
    blocks = [index.search(queries[rows], k) for rows in slices(len(queries), _SAMPLE)]
    return [np.concatenate(each) for each in zip(*blocks, strict=True)]


_SCORES = {"typical": _typical, "diverse": _diverse, "uncertain": _uncertain}
