"""The study of migrations: its curves on few classes."""

import numpy as np

from studies import migration as study


def test_a_curve_has_the_hits_of_old_and_new_vectors_at_its_end():
    random = np.random.default_rng(0)
    labels, old = np.repeat(np.arange(5), 8), random.standard_normal((40, 6)).astype("float32")
    new = np.eye(5, 9, dtype="float32")[labels]
    new[:, 3:] += old / 50
    order = study.ordered(labels, "classes", seed=1)
    assert sorted(order) == list(range(40))
    assert (np.diff(labels[order]) != 0).sum() == 4
    points = study.curve(old, new, labels, order)
    assert max(points) == 40
    np.testing.assert_array_equal(points[40], study.hits(new, new, labels))
    assert points[40].mean() == 1 > points[min(points)].mean()
