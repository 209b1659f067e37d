"""The traps of retrieval numbers, each with numbers that can be checked by hand."""

import warnings

import numpy as np
import pytest

from tests.metrics.retrieval.test_retrieval import of_lists
from tfdml.metrics import retrieval

QUERY = [[1.0, 0.0]]


def arc(count):
    """Unit vectors that the query (1, 0) ranks in their order."""
    angles = np.linspace(0.1, 1.5, count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def ranked(relevance, **options):
    """The numbers of one query whose gallery, in the order of its ranks, has this relevance."""
    return retrieval(QUERY, [1], k=1, gallery=arc(len(relevance)), gallery_labels=relevance, **options)


def quiet(*args, **options):
    """`retrieval` where ties are meant to be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return retrieval(*args, **options)


def test_the_same_name_has_one_definition_the_sum_over_the_first_places_divided_by_r():
    # Not relevant, relevant, with R = 5: P(2) = 1/2. Divided by the one hit 0.5, by min(2, R) 0.25, by R 0.1.
    found = ranked([0, 1, 0, 0, 0, 1, 1, 1, 1], extra=("map@2", "map@5", "map@9"))
    assert found["map@2"] == pytest.approx(0.1)
    assert found["map@5"] == found["map@r"] == pytest.approx(0.1)
    assert found["map@9"] == found["map"] == pytest.approx((1 / 2 + 2 / 6 + 3 / 7 + 4 / 8 + 5 / 9) / 5)


def test_recall_is_the_hit_rate_and_not_the_share_of_relevant_items():
    assert ranked([0, 1, 0, 0, 0, 1, 1, 1, 1], extra=("recall@2",))["recall@2"] == 1  # Hits / R is 0.2.


def test_map_at_k_of_a_perfect_ranking_is_below_1_where_r_is_above_k():
    found = ranked([1, 1, 1, 1, 0], extra=("map@1", "map@2", "map@4"))
    assert (found["map@1"], found["map@2"], found["map@4"]) == (0.25, 0.5, 1)


def test_precision_at_k_divides_by_k_even_where_r_is_less():
    found = ranked([1, 0, 1, 0, 0], extra=("precision@2", "precision@3", "precision@5"))
    assert found["precision@1"] == 1
    assert found["precision@2"] == 1 / 2
    assert found["precision@3"] == 2 / 3
    assert found["precision@5"] == 2 / 5  # The most that two relevant items can give.


def test_ndcg_compares_with_the_best_ranking_of_the_first_k_places():
    # Ranks 2 and 3 of three relevant items: discounts 1, 1/log2(3) = 0.63093, 1/log2(4) = 0.5.
    found = ranked([0, 1, 1, 0, 0, 1], extra=("ndcg@1", "ndcg@2", "ndcg@3"))
    assert found["ndcg@1"] == 0
    assert found["ndcg@2"] == pytest.approx(0.63093 / 1.63093, abs=1e-5)
    assert found["ndcg@3"] == pytest.approx(1.13093 / 2.13093, abs=1e-5)
    assert ranked([1, 0, 0, 0], extra=("ndcg@4",))["ndcg@4"] == 1  # One relevant item, found first.


def test_r_differs_by_query_and_the_mean_is_over_queries():
    # The query of class 1 has R = 3 and finds ranks 1, 3, 4; that of class 2 has R = 1 and finds rank 2.
    found = retrieval(
        QUERY + QUERY, [1, 2], k=1, gallery=arc(5), gallery_labels=[1, 2, 1, 1, 0], per_query=True, extra=("map@2",)
    )
    np.testing.assert_allclose(found["r_precision"], [2 / 3, 0])
    np.testing.assert_allclose(found["map@r"], [(1 + 2 / 3) / 3, 0])
    np.testing.assert_allclose(found["map@2"], [1 / 3, 1 / 2])
    np.testing.assert_allclose(found["mrr"], [1, 1 / 2])


def test_too_few_neighbors_are_an_error_for_every_metric_that_needs_more():
    lists, options = [[0, 1]], {"k": 1, "gallery_labels": [1, 0, 1, 1]}
    with pytest.raises(ValueError, match="at least 3, the larger of k and its number of relevant items"):
        of_lists(lists, [1], **options)
    with pytest.raises(ValueError, match=r"Received 2 neighbors .* at least 4"):
        of_lists(lists, [1], **options, at_r=False, extra=("ndcg@4",))
    found = of_lists(lists, [1], **options, at_r=False, extra=("map@2", "precision@2", "ndcg@2"))
    assert (found["map@2"], found["precision@2"]) == (1 / 3, 1 / 2)
    assert found["ndcg@2"] == pytest.approx(1 / 1.63093, abs=1e-5)  # R = 3 comes from the labels, not from the list.


def test_a_query_is_removed_by_its_row_and_not_by_its_rank():
    # Rows 0 and 1 are the same photograph under two classes. The list of row 1 is 0, 1, 2, 3: without its first item
    # the query would find itself. Rankings: 1 2 3, 0 2 3, 0 1 3, 2 0 1.
    x = [[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]
    found = quiet(x, [0, 1, 0, 1], k=1, per_query=True)
    np.testing.assert_allclose(found["mrr"], [1 / 2, 1 / 3, 1, 1 / 3])


def test_an_approximate_search_that_misses_the_query_loses_no_neighbor():
    # The lists of rows 0 and 2 do not hold the row itself, that of row 1 holds it last.
    lists = [[1, 2, 3], [0, 2, 1], [3, 0, 1], [2, 3, 0]]
    found = of_lists(lists, [0, 0, 1, 1], k=(1, 2), per_query=True)
    np.testing.assert_array_equal(found["recall@1"], [1, 1, 1, 1])


def test_nothing_is_removed_from_a_gallery_of_its_own():
    x = [[1.0, 0.0], [0.0, 1.0]]
    with pytest.warns(UserWarning, match="each query finds itself. Leave out gallery="):
        found = retrieval(x, [0, 1], k=1, gallery=x, gallery_labels=[0, 1])
    assert (found["recall@1"], found["queries"]) == (1, 2)


def test_queries_without_a_relevant_item_leave_the_mean_and_are_counted():
    found = retrieval(QUERY * 3, [1, 7, 8], k=1, gallery=arc(3), gallery_labels=[0, 1, 1], extra=("ndcg@2",))
    assert (found["queries"], found["skipped"]) == (1, 2)
    assert found["mrr"] == 1 / 2  # Counted as 0 they would make it 1/6.


def test_micro_and_macro_averages_differ():
    # Three queries of class 1 have reciprocal rank 1, one of class 2 has 1/2.
    data = {"gallery": arc(3), "gallery_labels": [1, 2, 0], "k": 1}
    micro, macro = (retrieval(QUERY * 4, [1, 1, 1, 2], average=average, **data) for average in ("micro", "macro"))
    assert (micro["mrr"], macro["mrr"]) == (3.5 / 4, 1.5 / 2)


def test_the_mean_is_one_division_and_not_the_mean_of_blocks():
    # Blocks of 3 and 1 queries, with values 1, 1, 1 and 0, would have means whose mean is 1/2.
    data = {"gallery": np.tile(arc(2), (500, 1)), "gallery_labels": [1, 2] * 500, "k": 1}
    found = {quiet(QUERY * 4, [1, 1, 1, 2], max_bytes=2**n, **data)["precision@1"] for n in range(19, 24)}
    assert found == {3 / 4}


def test_ties_are_ranked_by_position_or_averaged():
    # Two items share the highest score, one of them relevant; R = 2, and the other relevant item is third.
    gallery, labels = [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]], [0, 1, 1]
    options = {
        "k": 1,
        "gallery": gallery,
        "gallery_labels": labels,
        "extra": ("precision@1", "precision@3", "ndcg@2", "map@2"),
    }
    with pytest.warns(UserWarning, match=r"For 100\.0% of the queries"):
        first = retrieval(QUERY, [1], **options)
    last = quiet(QUERY, [1], **{**options, "gallery_labels": [1, 0, 1]})
    mean = retrieval(QUERY, [1], ties="expected", **options)
    assert (first["mrr"], last["mrr"], mean["mrr"]) == (1 / 2, 1, 3 / 4)
    assert (first["map@2"], last["map@2"], mean["map@2"]) == (1 / 4, 1 / 2, 3 / 8)
    assert (first["precision@1"], last["precision@1"], mean["precision@1"]) == (0, 1, 1 / 2)
    assert first["precision@3"] == last["precision@3"] == mean["precision@3"] == 2 / 3
    assert mean["ndcg@2"] == pytest.approx((first["ndcg@2"] + last["ndcg@2"]) / 2)
    assert mean["ndcg@2"] == pytest.approx((0.63093 + 1) / 2 / 1.63093, abs=1e-5)


@pytest.mark.parametrize("broken", [np.full((4, 2), np.nan), np.ones((4, 2)), np.zeros((4, 2))])
def test_a_collapsed_or_diverged_model_is_an_error_and_no_score(broken):
    with pytest.raises(ValueError, match=r"NaN|all the same"):
        retrieval(broken, [0, 0, 1, 1], k=1)


@pytest.mark.parametrize("function", [retrieval, of_lists])
def test_one_class_is_an_error_because_every_ranking_is_perfect(function):
    with pytest.raises(ValueError, match="labels of one class, 5"):
        function(np.array([[1, 2], [0, 2], [0, 1]]), [5, 5, 5], k=1)
    with pytest.raises(ValueError, match="labels of one class, 5"):
        function(
            np.array([[1, 2], [0, 2], [0, 1]]),
            [5, 5, 5],
            k=1,
            gallery_labels=[5, 5, 5],
            **({"gallery": np.eye(3)[:, :2]} if function is retrieval else {}),
        )
