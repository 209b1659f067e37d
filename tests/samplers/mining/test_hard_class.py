"""Hard classes: classes with close current centers are drawn together."""

import numpy as np
import pytest
from scipy import stats

from tests.samplers.frequencies import take
from tfdml import samplers
from tfdml.samplers.draws import first_distinct
from tfdml.samplers.mining.hard_class import nearest_first

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(6), [4, 2, 3, 9, 5, 4]))
LINE = np.array([0.0, 1.0, 3.0, 7.0, 15.0, 31.0])


def centers_at(points, **options):
    """`ClassCenters` of classes 0, 1, ... at these points `(classes, dim)`, or `(classes,)` on a line."""
    points = np.reshape(points, (len(points), -1))
    centers = samplers.ClassCenters(np.arange(len(points)), points.shape[1], **{"normalize": False, **options})
    centers.refresh(points, np.arange(len(points)))
    return centers


def make(centers, **settings):
    return samplers.HardClassSampler(
        **{"classes_per_batch": 3, "examples_per_class": 2, "centers": centers, **settings}
    )


def greedy(points, start, count):
    """The classes that follow one another from `start`, by loops."""
    chosen = [start]
    while len(chosen) < count:
        others = [k for k in range(len(points)) if k not in chosen]
        chosen.append(min(others, key=lambda k: min(np.linalg.norm(points[k] - points[c]) for c in chosen)))
    return chosen


def classes_of(rows, examples):
    return LABELS[rows][:, ::examples]


def p_value(places, expected):
    """Chi-square of places 0, 1, ... against the expected shares."""
    return stats.chisquare(np.bincount(places, minlength=len(expected)), len(places) * np.asarray(expected)).pvalue


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_nearest_first_does_what_loops_do(offset):
    points = np.random.default_rng(1).standard_normal((7, 20, 5)).astype("float32") + np.float32(offset)
    found = nearest_first(points, 9)
    assert found.tolist() == [greedy(block.astype("float64"), 0, 9) for block in points]
    assert sorted(nearest_first(points, 20)[0]) == list(range(20))


def test_equal_vectors_come_in_their_order():
    assert nearest_first(np.ones((1, 9, 3)), 6).tolist() == [[0, 1, 2, 3, 4, 5]]


def test_with_all_classes_for_candidates_a_batch_is_the_greedy_one_from_its_first_class():
    points = np.random.default_rng(2).standard_normal((6, 3))
    sampler = make(centers_at(points), classes_per_batch=4, candidates=6)
    classes = classes_of(take(sampler, LABELS, 200), 2)
    assert set(classes[:, 0]) == set(range(6))
    for batch in classes:
        assert batch.tolist() == greedy(points, batch[0], 4)


def test_candidates_are_a_random_set_and_the_nearest_of_them_is_taken():
    points = LINE[:5]
    labels = LABELS[LABELS < 5]
    sampler = make(centers_at(points), classes_per_batch=2, candidates=3, seed=1)
    classes = labels[take(sampler, labels, 10_000)][:, ::2]
    expected = np.zeros((5, 5))
    for first in range(5):
        for one in range(5):
            for other in range(5):
                if len({first, one, other}) == 3:
                    nearer = min(one, other, key=lambda k: abs(points[k] - points[first]))
                    expected[first, nearer] += 1 / 60
    possible = expected.ravel() > 0
    places = (classes[:, 0] * 5 + classes[:, 1]).astype(int)
    assert possible[places].all()
    assert p_value(np.cumsum(possible)[places] - 1, expected.ravel()[possible]) > 1e-4


def test_the_first_distinct_of_independent_numbers_are_a_sample_without_replacement():
    numbers = np.random.default_rng(0).integers(0, 5, (4_000, 12))
    distinct = np.array([list(dict.fromkeys(row))[:3] for row in numbers.tolist() if len(set(row)) >= 3])
    numbers = numbers[[len(set(row)) >= 3 for row in numbers.tolist()]]
    np.testing.assert_array_equal(first_distinct(numbers, 3), distinct)
    _, ordered = np.unique(distinct @ [25, 5, 1], return_inverse=True)
    assert p_value(ordered, [1 / 60] * 60) > 1e-4


def test_candidates_of_many_classes_are_different_and_all_equally_likely():
    centers = samplers.ClassCenters(np.arange(200), dim=2)
    settings = {"classes_per_batch": 4, "examples_per_class": 1, "candidates": 4}
    classes = take(samplers.HardClassSampler(centers=centers, **settings), np.arange(200), 5_000)
    assert all(len(set(batch)) == 4 for batch in classes.tolist())
    for column in classes.T:
        assert p_value(column, [1 / 200] * 200) > 1e-4


@pytest.mark.parametrize(
    ("centers", "settings"),
    [(centers_at(LINE), dict(candidates=3)), (samplers.ClassCenters(np.arange(6), dim=4), dict(candidates=6))],
    ids=["no other candidates", "no refresh yet"],
)
def test_where_there_is_nothing_to_choose_by_classes_are_those_of_a_group(centers, settings):
    sampler = make(centers, **settings)
    classes = classes_of(take(sampler, LABELS, 6_000), 2)
    assert p_value(classes[:, 0], [1 / 6] * 6) > 1e-4
    assert p_value(np.unique(np.sum(2**classes, axis=1), return_inverse=True)[1], [1 / 20] * 20) > 1e-4
    assert set(take(sampler, LABELS, 500).ravel()) == set(range(len(LABELS)))


def test_embeddings_are_brought_to_length_1_unless_told_otherwise():
    points = np.array([[3.0, 0.0], [0.0, 0.1]])
    np.testing.assert_allclose(centers_at(points, normalize=True).centers, np.eye(2))
    np.testing.assert_allclose(centers_at(points).centers, points, rtol=1e-6)
    assert np.isfinite(centers_at(np.zeros((2, 2)), normalize=True).centers).all()


def test_centers_of_more_classes_than_the_labels_have_are_found_by_class_id():
    ids = np.array([-5, 3, 2**40, 2**60, 2**61, 2**62])
    known = samplers.ClassCenters(np.append(ids, [0, 7]), dim=1, normalize=False)
    known.refresh(np.append(LINE, [0.0, 1.0])[:, None], np.append(ids, [0, 7]))
    settings = dict(candidates=6, classes_per_batch=4)
    np.testing.assert_array_equal(
        take(make(known, **settings), ids[LABELS], 30), take(make(centers_at(LINE), **settings), LABELS, 30)
    )


def test_classes_that_are_too_short_are_no_candidates():
    sampler = make(centers_at(LINE), examples_per_class=4, candidates=4)
    for classes in classes_of(take(sampler, LABELS, 30), 4):
        assert set(classes) <= {0, 3, 4, 5}
        assert classes.tolist() == greedy(np.where(np.isin(range(6), [1, 2]), 1e6 * LINE, LINE)[:, None], classes[0], 3)


@pytest.mark.slow
def test_ten_times_as_many_candidates_as_classes_are_the_default():
    labels = np.repeat(np.arange(300), 2)
    centers = samplers.ClassCenters(labels, dim=2)
    centers.refresh(np.random.default_rng(0).standard_normal((600, 2)), labels)
    for classes, candidates in ((4, 40), (40, 300)):
        default, told = (
            make(centers, classes_per_batch=classes),
            make(centers, classes_per_batch=classes, candidates=candidates),
        )
        np.testing.assert_array_equal(take(default, labels, 4), take(told, labels, 4))


def test_many_candidates_are_drawn_in_small_blocks():
    table = None, np.zeros(20_000)
    blocks = [
        make(samplers.ClassCenters(np.arange(4), dim=256), candidates=candidates).block_steps(table)
        for candidates in (None, 2_000, 20_000)
    ]
    assert blocks == [8, 4, 1]
