"""Solids of glyphs, and items of several views."""

import numpy as np

from recipes.product_search import solids


def test_a_turned_bar_shows_its_front_and_its_side_at_the_places_of_a_projection():
    ink = np.zeros((1, 1, 21), np.uint8)
    ink[..., 8:13] = 255  # columns -2 to 2 around the middle
    (front,) = solids.turned(ink, np.array([0.0]))[0]
    np.testing.assert_array_equal(front, ink[0, 0])
    (view,) = solids.turned(ink, np.array([60.0]))[0]
    # The front, 4 pixels before the middle, is moved by -4 sin 60 = -3.46 and narrowed to 2.5 cos 60 = 1.25 around it.
    lit, side = np.flatnonzero(view == 255) - 10, np.flatnonzero(view == 128) - 10
    assert lit.tolist() == [-4, -3]
    assert side.tolist() == [-2, -1, 0, 1, 2, 3, 4]
    np.testing.assert_array_equal(solids.turned(ink, np.array([-60.0]))[0, 0], view[::-1])


def test_a_shape_is_what_is_brighter_than_the_middle_of_the_smoothed_range():
    images = np.full((1, 9, 9), 40, np.uint8)
    images[0, 3:6, 3:6] = 240
    images[0, 0, 8] = 255  # noise
    assert np.argwhere(solids.shapes(images)[0] == 255).tolist() == [
        [y, x] for y in (3, 4, 5) for x in (3, 4, 5) if 4 in (y, x)
    ]


def test_items_of_several_views_are_found_by_the_nearest_one():
    labels, queries = np.array([0, 1]), np.array([[1.0, 0.0], [0.0, 1.0]])
    apart = np.array([[0.6, -0.8], [0.9, 0.1]])  # the first item is near its query from one side alone
    views = [apart, apart, apart, apart, np.array([[1.0, 0.0], [0.0, 1.0]])]
    ranks = {name: found.tolist() for name, found in solids.first_ranks(queries, views, labels, labels)}
    assert ranks["one view, the front"] == [2, 1]
    assert ranks["five views, the nearest"] == [1, 1]
