"""Samplers that follow the model: a refresh reaches batches that are not drawn yet, and its arrays can be saved."""

import numpy as np
import pytest

from tests.samplers.frequencies import take
from tfdml import samplers

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(6), [4, 2, 3, 9, 5, 4]))
X = np.random.default_rng(1).standard_normal((len(LABELS), 3))


def hard_class():
    centers = samplers.ClassCenters(LABELS, dim=3)
    sampler = samplers.HardClassSampler(classes_per_batch=3, examples_per_class=2, candidates=6, centers=centers)
    return sampler, centers, lambda: centers.refresh(X, LABELS)


def mined():
    pairs = samplers.MinedPairs(LABELS, positives=2, negatives=3)
    return samplers.MinedSampler(anchors_per_batch=4, pairs=pairs), pairs, lambda: pairs.refresh(X)


every_kind = pytest.mark.parametrize("make", [hard_class, mined])


@every_kind
def test_a_refresh_reaches_batches_that_are_not_drawn_yet(make):
    sampler, state, refresh = make()
    rows = iter(sampler.index_batches(LABELS))
    batches = iter(sampler.batches(np.arange(len(LABELS)), LABELS))
    before = [next(rows) for _ in range(10)]
    np.testing.assert_array_equal(before, [next(batches)[0].numpy() for _ in range(10)])
    refresh()
    assert int(state.refreshes) == 1
    drawn_ahead = 14  # Steps 10 to 15 were drawn in one block with step 9, and the next block may be drawn, too.
    after = [next(rows) for _ in range(40)]
    expected = sampler.index_batches(LABELS, start=10)[:40]
    np.testing.assert_array_equal(after[drawn_ahead:], expected[drawn_ahead:])
    assert not np.array_equal(after[:drawn_ahead], expected[:drawn_ahead])
    late = [next(batches)[0].numpy() for _ in range(190)]
    expected = sampler.index_batches(LABELS, start=160)[:40]
    np.testing.assert_array_equal(late[150:], expected)


@every_kind
def test_saved_arrays_keep_what_the_last_refresh_made(make, tmp_path):
    sampler, state, refresh = make()
    refresh()
    names = ["centers"] if hasattr(state, "centers") else ["positives", "negatives"]
    np.savez(tmp_path / "state.npz", **{name: getattr(state, name) for name in names})
    again, loaded, _ = make()
    for name, array in np.load(tmp_path / "state.npz").items():
        setattr(loaded, name, array)
    np.testing.assert_array_equal(take(again, LABELS, 20), take(sampler, LABELS, 20))
