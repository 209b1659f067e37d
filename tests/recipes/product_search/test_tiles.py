"""Tiles of one photograph, and the others that show the same object."""

from pathlib import Path

import numpy as np
import pytest

import tfdml
from recipes import product_search
from recipes.things import COINS

SAVED_MODELS = Path(__file__).parents[3] / "savedmodels"


def test_tiles_are_their_boxes_and_cover_the_photograph():
    photograph = np.random.default_rng(0).integers(0, 256, (50, 71, 3), np.uint8)
    squares, boxes = product_search.tiles(photograph, side=20, stride=7)
    covered = np.zeros((50, 71), bool)
    for square, (top, left, bottom, right) in zip(squares, boxes, strict=True):
        np.testing.assert_array_equal(square, photograph[top:bottom, left:right])
        covered[top:bottom, left:right] = True
    assert covered.all()
    assert len(np.unique(boxes, axis=0)) == len(boxes) == 6 * 9
    (whole,), _ = product_search.tiles(photograph[:20, :20], side=20, stride=7)
    np.testing.assert_array_equal(whole, photograph[:20, :20])


@pytest.mark.parametrize("shown", range(5))
def test_one_of_five_pasted_objects_finds_the_other_four(shown):
    photograph = np.random.default_rng(0).integers(80, 120, (300, 400, 3)).astype("float32")
    middles = np.array([(40, 50), (43, 120), (150, 201), (263, 60), (222, 333)])
    rows, columns = np.mgrid[-14:15, -14:15]
    for y, x in middles:
        photograph[y - 14 : y + 15, x - 14 : x + 15][rows**2 + columns**2 < 14**2] = (250, 180, 20)
    squares, boxes = product_search.tiles(photograph, side=40, stride=10)
    cells = squares.reshape(-1, 4, 10, 4, 10, 3).mean(axis=(2, 4)).reshape(len(squares), -1) - 100
    embeddings = cells / np.linalg.norm(cells, axis=1, keepdims=True)

    distances = np.abs((boxes[:, None, :2] + boxes[:, None, 2:]) / 2 - middles).max(axis=2)
    query = int(distances[:, shown].argmin())
    found = product_search.others(embeddings, boxes, query, most=4)
    assert sorted(distances[found].argmin(axis=1)) == sorted(set(range(5)) - {shown})
    assert distances[found].min(axis=1).max() <= 10


def test_answers_lie_apart_from_the_query_and_fall_in_similarity():
    random = np.random.default_rng(1)
    _, boxes = product_search.tiles(np.zeros((90, 120, 3)), side=30, stride=6)
    embeddings = random.normal(size=(len(boxes), 8))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    found = product_search.others(embeddings, boxes, 40, most=len(boxes), overlap=0.0)
    scores = embeddings[found] @ embeddings[40]
    assert (np.diff(scores) <= 0).all()
    taken = np.zeros((90, 120), int)
    for top, left, bottom, right in boxes[[40, *found]]:
        taken[top:bottom, left:right] += 1
    assert taken.max() == 1
    # Each tile that is no answer overlaps the query or an answer of at least its similarity.
    for row in set(range(len(boxes))) - {40, *found}:
        near = (np.abs(boxes[[40, *found], :2] - boxes[row, :2]) < 30).all(axis=1)
        assert max(np.array([1.0, *scores])[near]) >= embeddings[row] @ embeddings[40]


@pytest.mark.slow
def test_a_click_on_any_coin_of_a_photograph_finds_nearly_all_others():
    squares, boxes = product_search.tiles(tfdml.datasets.photograph("coins"), side=64, stride=16)
    embeddings = tfdml.models.embed(tfdml.zoo.load("photo-patches-imagenet", root=SAVED_MODELS), squares)
    x, y, radius = np.array(COINS).T
    distances = np.hypot(boxes[:, [1]] + 32 - x, boxes[:, [0]] + 32 - y)
    numbers = []
    for coin, query in enumerate(distances.argmin(axis=0)):
        found = product_search.others(embeddings, boxes, query, most=23)
        shown = distances[found].argmin(axis=1)
        inside = distances[found, shown] < radius[shown]
        numbers.append(len(set(shown[inside]) - {coin}))
    assert numbers[16] == 23
    assert np.mean(numbers) >= 22.5  # docs/search.md: 22.9
