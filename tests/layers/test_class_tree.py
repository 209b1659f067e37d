"""Trees of classes, and the triplet loss whose margin they give."""

import keras
import numpy as np
import pytest

from tests.backend import XLA, compiled, numbers
from tests.losses import loops
from tfdml import callbacks, layers, losses, pairs, samplers

pytestmark = pytest.mark.backends

IDS = np.array([30, 7, 12, 5, 8])
LABELS = np.repeat(IDS, [3, 4, 2, 5, 1])
RNG = np.random.default_rng(0)
X = (2 * RNG.standard_normal((31, 4))[LABELS] + RNG.standard_normal((15, 4))).astype("float32")


def tree_by_loops(labels, x, levels):
    """Merge heights of every two classes, a dict, and spreads of the classes, from the definitions of the paper."""
    x, ids = loops.unit(x.astype(float)), np.unique(labels)
    d = loops.distances(x, "squared")
    rows = {c: np.flatnonzero(labels == c) for c in ids}
    between = {(p, q): d[np.ix_(rows[p], rows[q])].mean() for p in ids for q in ids}
    spreads = {c: d[np.ix_(rows[c], rows[c])].sum() / (n * (n - 1)) for c in ids if (n := len(rows[c])) > 1}
    lowest = np.mean(list(spreads.values()))
    heights = {}
    for level in reversed(range(levels)):
        height = lowest + level * (4 - lowest) / levels
        nodes = {c: {c} for c in ids}
        for p in ids:
            for q in ids:
                if p != q and between[p, q] < height:
                    merged = nodes[p] | nodes[q]
                    for c in merged:
                        nodes[c] = merged
        for p in ids:
            for q in nodes[p]:
                heights[p, q] = height
    return {(p, q): heights.get((p, q), 4.0) for p in ids for q in ids}, {c: spreads.get(c, lowest) for c in ids}


@pytest.mark.parametrize("levels", [1, 4, 16, 100])
def test_margins_are_the_merge_heights_of_the_paper_minus_the_spread_of_the_class(levels):
    tree = layers.ClassTree(LABELS, levels=levels)
    tree.refresh(X, LABELS)
    heights, spreads = tree_by_loops(LABELS, X, levels)
    found = numbers(tree(pairs.all_pairs(IDS, X[:5])))
    for row, p in enumerate(IDS):
        for column, q in enumerate(IDS):
            if p != q:
                assert found[row, column] == pytest.approx(heights[p, q] - spreads[p], abs=1e-5)
    assert levels < 16 or len(set(heights.values())) > 3


def test_the_loss_is_the_triplet_loss_with_the_margins_of_the_tree():
    tree = layers.ClassTree(LABELS)
    tree.refresh(X, LABELS)
    heights, spreads = tree_by_loops(LABELS, X, 16)
    d = loops.distances(loops.unit(X.astype(float)), "squared")
    costs = [[] for _ in X]
    for a in range(len(X)):
        positives, negatives = loops.others_of(a, LABELS)
        for p in positives:
            for n in negatives:
                margin = 0.1 + heights[LABELS[a], LABELS[n]] - spreads[LABELS[a]]
                costs[a].append(max(0, d[a, p] - d[a, n] + margin))
    found = losses.HierarchicalTripletLoss(tree).call(LABELS, X)
    np.testing.assert_allclose(numbers(found), loops.normalized_costs(costs, "all"), rtol=1e-5)


@pytest.mark.slow
def test_classes_that_the_tree_does_not_have_are_refused_and_nan_where_they_cannot_be_read():
    tree = layers.ClassTree([5, 7])
    with pytest.raises(ValueError, match="Received labels of 5 classes, expected exactly the 2 classes of this tree"):
        tree.refresh(X, LABELS)
    loss, labels = losses.HierarchicalTripletLoss(tree), np.array([5, 5, 7, 9])
    with pytest.raises(ValueError, match="Received label 9, which class_ids does not cover"):
        loss(labels, X[:4])
    if XLA:
        found = compiled(loss.call)(*(keras.ops.convert_to_tensor(part) for part in (labels, X[:4])))
        assert np.isnan(numbers(found)).any()


def test_classes_of_one_example_have_the_mean_spread_and_one_class_alone_no_neighbors():
    tree = layers.ClassTree([1, 2])
    tree.refresh(X[:3], np.array([1, 1, 2]))
    np.testing.assert_allclose(numbers(tree.spreads)[1], numbers(tree.spreads)[0])
    tree.refresh(X[:2], np.array([1, 2]))
    np.testing.assert_array_equal(numbers(tree.spreads), 0)
    layers.ClassTree([3]).refresh(X[:2], np.array([3, 3]))


def test_centers_and_trees_take_the_same_callback():
    for made in (layers.ClassTree(LABELS), samplers.ClassCenters(LABELS, dim=4)):
        assert callbacks.RefreshCenters(X, LABELS, centers=made).centers is made
