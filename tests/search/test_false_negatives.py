"""Guards against false negatives: what is left out is what loops over the rules leave out."""

import numpy as np
import pytest

from tests.oracles import unit
from tests.search.test_hard_pairs import LABELS, distances, embedded
from tfdml import samplers, search
from tfdml.search import FalseNegativeGuard, hard_pairs, hardest_pairs, hardest_triplets

TEACHER = np.random.default_rng(5).standard_normal((len(LABELS), 3)).astype("float32")


def by_loops(
    x, labels, count, metric, *, skip=0, candidates=100, max_score=None, margin=None, fraction=None, most=None
):
    """Negatives from the scores of all pairs; `most` is the limit of the cosine of `TEACHER`."""
    s, teacher = (metric == "cosine") - distances(x, metric), 1 - distances(TEACHER, "cosine")
    rows = np.full((len(x), count), -1)
    for a in range(len(x)):
        positives = [s[a, j] for j in range(len(x)) if labels[j] == labels[a] and j != a]
        others = sorted((j for j in range(len(x)) if labels[j] != labels[a]), key=lambda j: -s[a, j])
        kept = []
        for n in others[skip : skip + candidates]:
            too_near = max_score is not None and s[a, n] >= max_score
            if positives and margin is not None:
                too_near |= s[a, n] >= max(positives) - margin
            if positives and fraction is not None:
                too_near |= s[a, n] >= max(positives) - (1 - fraction) * abs(max(positives))
            if most is not None:
                too_near |= teacher[a, n] >= most
            if not too_near:
                kept.append(n)
        rows[a, : len(kept[:count])] = kept[:count]
    return rows


RULES = {
    "none": {},
    "skip": dict(skip=3),
    "skip and few candidates": dict(skip=2, candidates=5),
    "absolute": dict(max_score=-0.1),
    "margin": dict(margin=0.2),
    "fraction": dict(fraction=0.8),
    "all at once": dict(skip=1, max_score=0.5, margin=0.05, fraction=0.95, candidates=30),
}


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_negatives_are_those_of_loops_over_all_pairs(metric, rules):
    x = embedded(1.0)
    result = hardest_pairs(x, LABELS, positives=2, negatives=4, metric=metric, guard=FalseNegativeGuard(**rules))
    np.testing.assert_array_equal(result.negatives, by_loops(x, LABELS, 4, metric, **rules))
    np.testing.assert_array_equal(result.positives, hardest_pairs(x, LABELS, positives=2, metric=metric).positives)


def cross_encoder(anchors, candidates):
    """The cosines of the teacher, as a function of pairs."""
    assert candidates.shape[0] == len(anchors)
    return np.einsum("ad,acd->ac", unit(TEACHER)[anchors], unit(TEACHER)[candidates])


@pytest.mark.parametrize("teacher", [TEACHER, cross_encoder], ids=["embeddings", "function"])
def test_a_teacher_leaves_out_what_it_finds_similar(teacher):
    x = embedded(1.0)
    guard = FalseNegativeGuard(teacher=teacher, max_teacher_score=0.1, margin=0.1)
    result = hardest_pairs(x, LABELS, negatives=3, guard=guard).negatives
    np.testing.assert_array_equal(result, by_loops(x, LABELS, 3, "cosine", margin=0.1, most=0.1))


def test_chunks_of_any_size_find_the_same(monkeypatch):
    x, guard = embedded(0.5), FalseNegativeGuard(skip=1, fraction=0.9, teacher=TEACHER, max_teacher_score=0.5)
    expected = hardest_pairs(x, LABELS, negatives=3, guard=guard)
    monkeypatch.setattr(hard_pairs, "_CHUNK_BYTES", 20_000)
    for rows, same in zip(hardest_pairs(x, LABELS, negatives=3, guard=guard), expected, strict=True):
        np.testing.assert_array_equal(rows, same)


def test_an_anchor_without_negatives_has_minus_one_and_no_triplet():
    x, labels = np.array([[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), [0, 0, 1, 1]
    guard = FalseNegativeGuard(margin=0.0)  # s_ap is 1 in class 0, and 0.6 in class 1
    assert hardest_pairs(x, labels, negatives=2, guard=guard).negatives.tolist() == [[2, 3], [2, 3], [-1, -1], [0, 1]]
    assert hardest_triplets(x, labels, margin=np.inf, guard=guard)[:, 0].tolist() == [0, 1, 3]


def test_mined_pairs_are_guarded_and_keep_negatives_where_none_is_left():
    x, guard = embedded(1.0), FalseNegativeGuard(max_score=0.0)
    pairs = samplers.MinedPairs(LABELS, positives=1, negatives=3, guard=guard)
    before = pairs.negatives.copy()
    pairs.refresh(x)
    expected = hardest_pairs(x, LABELS, negatives=3, guard=guard).negatives
    np.testing.assert_array_equal(pairs.negatives, expected)
    guard = FalseNegativeGuard(max_score=-2.0)  # no cosine is below
    pairs = samplers.MinedPairs(LABELS, positives=1, negatives=3, guard=guard)
    pairs.refresh(x)
    np.testing.assert_array_equal(pairs.negatives, before)


def test_scann_is_guarded_too():
    x, guard = embedded(1.0), FalseNegativeGuard(skip=1, fraction=0.9)
    ours, exact = (hardest_pairs(x, LABELS, negatives=3, index=name, guard=guard) for name in ("scann", "exact"))
    assert search.neighbor_recall(ours.negatives, exact.negatives) > 0.9
