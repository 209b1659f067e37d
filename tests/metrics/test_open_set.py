"""Open-set identification against decisions query by query."""

import numpy as np
import pytest

from tests.oracles import scores_of
from tfdml.metrics import open_set

RNG = np.random.default_rng(0)
ITEMS, ITEM_LABELS = RNG.normal(size=(24, 5)), np.arange(24) % 8
LABELS = RNG.integers(0, 12, 200)  # classes 8 to 11 are unknown
QUERIES = ITEMS[LABELS % 8] + RNG.normal(size=(200, 5))


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("far", [0.05, 0.24])
def test_rates_are_the_best_within_the_false_alarms(metric, far):
    scores = scores_of(QUERIES, ITEMS, metric)
    top, answer, is_known = scores.max(axis=1), ITEM_LABELS[scores.argmax(axis=1)], LABELS < 8
    rates = []
    for threshold in np.append(top, np.inf):
        is_answered = top >= threshold
        if is_answered[~is_known].mean() <= far:
            rates.append((is_answered & (answer == LABELS))[is_known].mean())
    options = {"gallery": ITEMS, "gallery_labels": ITEM_LABELS, "metric": metric, "far": far}
    numbers = open_set(QUERIES, LABELS, **options)
    name = f"dir@far={far:g}"
    assert numbers[name] == pytest.approx(max(rates))
    assert numbers[f"{name} low"] < numbers[name] < numbers[f"{name} high"]
    assert numbers["rank_1"] == pytest.approx((answer == LABELS)[is_known].mean())
    assert (numbers["known"], numbers["unknown"]) == (is_known.sum(), (~is_known).sum())


@pytest.mark.parametrize("known", [1, 5])
def test_few_known_classes_have_rates_without_an_interval(known):
    """One person at a door: 40 queries of each known class, 0.1 from its only item, and 20 of others, 0.5 away."""
    items = 9.0 * np.arange(known)[:, None]
    queries = np.concatenate([np.repeat(items, 40, axis=0) + 0.1, np.full((20, 1), 0.5)])
    labels = np.append(np.repeat(np.arange(known), 40), np.full(20, 99))
    numbers = open_set(queries, labels, gallery=items, gallery_labels=np.arange(known), metric="euclidean")
    assert (numbers["dir@far=0.01"], numbers["rank_1"], numbers["known"], numbers["unknown"]) == (1, 1, 40 * known, 20)
    assert np.isnan([numbers["dir@far=0.01 low"], numbers["dir@far=0.01 high"]]).all()


@pytest.mark.parametrize(
    ("labels", "far", "message"),
    [
        (LABELS % 8, 0.1, "Received 200 queries of classes of the gallery and 0 of others, expected some of both"),
        (LABELS + 8, 0.1, "Received 0 queries of classes of the gallery and 200 of others"),
        (LABELS, (0.1, 1.0), "expected rates above 0 and below 1"),
    ],
)
def test_queries_of_one_kind_and_rates_out_of_range_are_errors(labels, far, message):
    with pytest.raises(ValueError, match=message):
        open_set(QUERIES, labels, gallery=ITEMS, gallery_labels=ITEM_LABELS, far=far)
