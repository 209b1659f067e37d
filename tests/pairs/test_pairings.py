"""Pairings: which rows are compared, and which pairs are positive; and new weights for pairs."""

import keras
import numpy as np
import pytest

from tests.backend import compiled, fast, numbers, traced
from tfdml import losses, pairs

pytestmark = pytest.mark.backends

LABELS = np.array([0, 0, 1, 1, 2, 0])


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((6, 4)).astype("float32")


@pytest.mark.everywhere
def test_all_pairs_compares_every_row_with_every_other(x):
    made = pairs.all_pairs(LABELS, x)
    same = LABELS[:, None] == LABELS
    np.testing.assert_array_equal(numbers(made.positive), same & ~np.eye(6, dtype=bool))
    np.testing.assert_array_equal(numbers(made.negative), ~same)


def test_consecutive_pairs_are_one_column(x):
    made = pairs.consecutive_pairs(LABELS, x)
    np.testing.assert_array_equal(numbers(made.positive), [[1], [1], [0]])
    np.testing.assert_array_equal(numbers(made.negative), [[0], [0], [1]])
    expected = np.linalg.norm(x[0::2] - x[1::2], axis=1)[:, None]
    np.testing.assert_allclose(numbers(pairs.euclidean(made)), expected, rtol=1e-5)


def test_pairs_with_references_leaves_nothing_out(x):
    made = pairs.pairs_with(LABELS[:2], x[:2], LABELS[2:], x[2:])
    np.testing.assert_array_equal(numbers(made.positive), [[0, 0, 0, 1], [0, 0, 0, 1]])
    np.testing.assert_array_equal(numbers(made.negative), [[1, 1, 1, 0], [1, 1, 1, 0]])
    np.testing.assert_allclose(numbers(pairs.dot(made)), x[:2] @ x[2:].T, rtol=1e-5)


def test_integer_embeddings_are_taken_as_floats():
    counts = np.array([[3, 4], [0, 0]])
    np.testing.assert_allclose(
        numbers(pairs.euclidean(pairs.all_pairs([0, 1], counts))), [[0, 5], [5, 0]], rtol=1e-5, atol=1e-17
    )


def test_what_is_wrong_is_said_at_the_call(x):
    with pytest.raises(ValueError, match="batch of 5 rows for pairs of neighboring rows, expected an even number"):
        pairs.consecutive_pairs(LABELS[:5], x[:5])
    with pytest.raises(ValueError, match="dimension 4 and references of dimension 3"):
        pairs.pairs_with(LABELS, x, LABELS, x[:, :3])
    with pytest.raises(ValueError, match="expected integer class ids"):
        pairs.pairs_with(LABELS, x, LABELS.astype(float), x)
    with pytest.raises(ValueError, match="or a function of Pairs"):
        pairs.distances.distance_function("hamming")


def test_even_rows_stand_against_odd_rows(x):
    made = pairs.even_against_odd([0, 0, 1, 1, 2, 0], x)
    np.testing.assert_array_equal(numbers(made.positive), [[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(numbers(made.negative), 1 - numbers(made.positive))
    np.testing.assert_allclose(numbers(pairs.dot(made)), x[0::2] @ x[1::2].T, rtol=1e-5)
    with pytest.raises(ValueError, match="batch of 3 rows for pairs of neighboring rows"):
        pairs.even_against_odd(LABELS[:3], x[:3])


def test_labeled_pairs_are_one_column_of_similar_and_dissimilar_pairs(x):
    made = pairs.labeled_pairs([1, 1, 0, 0, 1, 1], x)
    np.testing.assert_array_equal(numbers(made.positive), [[1], [0], [1]])
    np.testing.assert_array_equal(numbers(made.negative), [[0], [1], [0]])
    expected = np.linalg.norm(x[0::2] - x[1::2], axis=1)[:, None]
    np.testing.assert_allclose(numbers(pairs.euclidean(made)), expected, rtol=1e-5)
    equal = numbers(made.anchor_labels)[:, None] == numbers(made.reference_labels)
    np.testing.assert_array_equal(equal, numbers(made.positive) > 0)


def test_triplet_rows_are_an_anchor_against_its_own_positive_and_negative(x):
    made = pairs.triplet_rows(LABELS, x)
    np.testing.assert_array_equal(numbers(made.positive), [[1, 0], [1, 0]])
    np.testing.assert_array_equal(numbers(made.negative), [[0, 1], [0, 1]])
    anchors = x[[0, 3]]
    expected = [np.linalg.norm(anchors - others, axis=1) for others in (x[[1, 4]], x[[2, 5]])]
    np.testing.assert_allclose(numbers(pairs.euclidean(made)), np.transpose(expected), rtol=1e-5)
    equal = numbers(made.anchor_labels)[:, None] == numbers(made.reference_labels)
    np.testing.assert_array_equal(equal, numbers(made.positive) > 0)


def test_the_first_tower_stands_against_the_second_one(x):
    stacked, labels = np.stack([x[:3], x[3:]], axis=1), np.array([0, 1, 0])
    same_classes = pairs.two_towers(labels, stacked)
    np.testing.assert_array_equal(numbers(same_classes.positive), labels[:, None] == labels)
    np.testing.assert_array_equal(numbers(same_classes.negative), labels[:, None] != labels)
    np.testing.assert_allclose(numbers(pairs.dot(same_classes)), x[:3] @ x[3:].T, rtol=1e-5)
    others = np.array([1, 2, 0])
    other_classes = pairs.two_towers(np.stack([labels, others], axis=1), stacked)
    np.testing.assert_array_equal(numbers(other_classes.positive), labels[:, None] == others)
    np.testing.assert_array_equal(numbers(pairs.two_towers(labels[:, None], stacked).positive), same_classes.positive)


@pytest.mark.parametrize("label", [2, -1])
def test_a_pair_whose_label_is_not_0_or_1_is_an_error_and_nan_where_none_can_be_raised(label, x):
    labels = np.array([1, 1, label, label, 0, 0])
    with pytest.raises(ValueError, match=rf"labels {label} and {label} on the rows of pair 1, expected 1 on both rows"):
        pairs.labeled_pairs(labels, x)
    made = traced(lambda labels: pairs.euclidean(pairs.labeled_pairs(labels, x)))(keras.ops.convert_to_tensor(labels))
    np.testing.assert_array_equal(np.isnan(numbers(made)[:, 0]), [False, True, False])


def test_what_is_wrong_with_data_without_classes_or_two_towers_is_said_at_the_call(x):
    with pytest.raises(ValueError, match="labels 1 and 0 on the rows of pair 2"):
        pairs.labeled_pairs([1, 1, 0, 0, 1, 0], x)
    with pytest.raises(ValueError, match="batch of 5 rows for pairs"):
        pairs.labeled_pairs([1, 1, 0, 0, 1], x[:5])
    with pytest.raises(ValueError, match="batch of 5 rows for triplets, expected a number divisible by 3"):
        pairs.triplet_rows(LABELS[:5], x[:5])
    with pytest.raises(ValueError, match=r"shape \(6, 4\) for two towers, expected \(batch, 2, dim\)"):
        pairs.two_towers(LABELS, x)
    with pytest.raises(ValueError, match=r"shape \(3, 2, 4\), expected .* pairing=two_towers"):
        pairs.all_pairs(LABELS[:3], x.reshape(3, 2, 4))
    with pytest.raises(ValueError, match="6 labels and 3 embeddings"):
        pairs.two_towers(LABELS, x.reshape(3, 2, 4))


@pytest.mark.parametrize("labels", [None, [5, 5, 5, 5, 5, 5], np.zeros((6, 3))], ids=["none", "one class", "floats"])
def test_the_other_view_of_an_example_is_its_only_positive_whatever_the_labels(labels, x):
    made = pairs.two_views(labels, x)
    assert made.is_self
    np.testing.assert_array_equal(numbers(made.positive), np.kron(np.eye(3), 1 - np.eye(2)))
    np.testing.assert_array_equal(numbers(made.negative), 1 - np.kron(np.eye(3), np.ones((2, 2))))
    np.testing.assert_array_equal(numbers(made.anchor_labels), [0, 0, 1, 1, 2, 2])


def test_two_views_of_what_is_not_in_pairs_are_refused(x):
    with pytest.raises(ValueError, match="batch of 5 rows for pairs of neighboring rows"):
        pairs.two_views(None, x[:5])
    with pytest.raises(ValueError, match="for two views, expected match=None"):
        losses.NTXentLoss(pairing=pairs.two_views, match=lambda a, b: a == b)(LABELS, x)


@pytest.mark.parametrize("xla", [False, True])
def test_a_loss_over_two_views_is_that_of_the_numbers_of_the_examples(x, xla):
    loss, expected = losses.NTXentLoss(pairing=pairs.two_views), losses.NTXentLoss()
    values = (compiled if xla else fast)(lambda v: loss.call(None, v))(keras.ops.convert_to_tensor(x))
    np.testing.assert_allclose(numbers(values), numbers(expected.call([0, 0, 1, 1, 2, 2], x)), rtol=1e-5)


def test_weights_are_scaled_and_dropped(x):
    made, first = pairs.all_pairs(LABELS, x), np.arange(6)[:, None] == 0
    scaled, dropped = made.scale(positive=2.0, negative=np.full((1, 6), 0.5, "float32")), made.drop(negative=first)
    np.testing.assert_array_equal(numbers(scaled.positive), 2 * numbers(made.positive))
    np.testing.assert_array_equal(numbers(scaled.negative), numbers(made.negative) / 2)
    np.testing.assert_array_equal(numbers(dropped.negative), numbers(made.negative) * ~first)
    np.testing.assert_array_equal(numbers(made.drop(positive=first).positive), numbers(made.positive) * ~first)
    for same in (made.scale(), made.drop(), dropped):
        np.testing.assert_array_equal(numbers(same.positive), numbers(made.positive))
    assert scaled.is_self


def share_a_tag(a, b):
    a, b = (keras.ops.cast(labels, "float32") for labels in (a, b))
    return keras.ops.matmul(a, keras.ops.transpose(b)) > 0


TAGS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [0, 0, 0]])

SHARED = (TAGS @ TAGS.T > 0).astype(float)


def test_match_decides_what_is_positive_and_a_row_is_not_paired_with_itself(x):
    made = pairs.all_pairs(TAGS, x, match=share_a_tag)
    others = 1 - np.eye(6)
    np.testing.assert_array_equal(numbers(made.positive), SHARED * others)
    np.testing.assert_array_equal(numbers(made.negative), (1 - SHARED) * others)


def test_match_works_in_every_pairing(x):
    against = pairs.pairs_with(TAGS, x, TAGS[:4], x[:4], match=share_a_tag)
    np.testing.assert_array_equal(numbers(against.positive), SHARED[:, :4])
    np.testing.assert_array_equal(numbers(against.negative), 1 - SHARED[:, :4])
    rows = pairs.consecutive_pairs(TAGS, x, match=share_a_tag)
    np.testing.assert_array_equal(numbers(rows.positive)[:, 0], SHARED[[0, 2, 4], [1, 3, 5]])
    np.testing.assert_array_equal(numbers(rows.negative)[:, 0], 1 - SHARED[[0, 2, 4], [1, 3, 5]])
    halves = pairs.even_against_odd(TAGS, x, match=share_a_tag)
    np.testing.assert_array_equal(numbers(halves.positive), SHARED[0::2, 1::2])
    towers = pairs.two_towers(TAGS, np.stack([x, x], axis=1), match=share_a_tag)
    np.testing.assert_array_equal(numbers(towers.positive), SHARED)
    both_sides = np.stack([TAGS[:3], TAGS[3:]], axis=1)
    towers = pairs.two_towers(both_sides, np.stack([x[:3], x[3:]], axis=1), match=share_a_tag)
    np.testing.assert_array_equal(numbers(towers.positive), SHARED[:3, 3:])


def test_match_may_depend_on_the_order_of_its_labels(x):
    made = pairs.all_pairs(LABELS, x, match=lambda a, b: a[:, None] > b)
    np.testing.assert_array_equal(numbers(made.positive), (LABELS[:, None] > LABELS).astype(float))


@pytest.mark.parametrize("loss", [losses.functional.angular, losses.functional.n_pairs])
def test_pairs_pass_through_the_boundary_of_a_compiled_function(loss, x):
    against = pairs.pairs_with(LABELS[:2], x[:2], LABELS[2:], x[2:])
    for made in [pairs.all_pairs(LABELS, x)] + [against] * (loss is not losses.functional.angular):
        inside = compiled(lambda pairs: (pairs, loss(pairs)))
        (again, values), expected = inside(made), numbers(fast(lambda made=made: loss(made))())
        assert again.is_self == made.is_self
        np.testing.assert_allclose(numbers(values), expected, rtol=1e-5)
        np.testing.assert_allclose(numbers(inside(again)[1]), expected, rtol=1e-5)


@pytest.mark.parametrize("distance", [pairs.dot, pairs.cosine, pairs.squared, pairs.euclidean])
def test_a_batch_against_itself_stays_so_with_other_anchors(distance, x):
    made = pairs.all_pairs(LABELS, x)
    np.testing.assert_allclose(
        numbers(distance(made._replace(anchors=2 * x))), numbers(distance(pairs.all_pairs(LABELS, 2 * x)))
    )
    assert made._replace(anchors=2 * x).is_self


def test_references_that_are_given_are_others_even_where_they_are_the_anchors(x):
    made = pairs.all_pairs(LABELS, x)
    by_hand = made._replace(references=made.anchors)
    assert made.is_self
    assert not by_hand.is_self
    assert made.reference_embeddings is made.anchors
    assert by_hand.reference_embeddings is made.anchors
    with pytest.raises(ValueError, match="Received anchors against other references"):
        losses.functional.angular(by_hand)
    values = [numbers(losses.functional.n_pairs(each)) for each in (by_hand, made)]
    np.testing.assert_allclose(*values, rtol=1e-5)
