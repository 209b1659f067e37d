"""Scenes search products, from embedded data and from tables."""

from argparse import Namespace

import numpy as np
import pytest

from recipes.product_search import __main__ as recipe
from tests.recipes.quick import results_of
from tests.recipes.two_domains import SPLITS, are_both_domains, table_of

pytestmark = pytest.mark.slow


def test_two_of_four_architectures_search_products_from_scenes(tmp_path, monkeypatch, capsys):
    record = results_of(monkeypatch, recipe, tmp_path)
    assert list(record["results"]) == ["A", "D"]
    assert record["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/quick/scenes-against-products"
    low, high = record["D - A, recall@1"][1:]
    assert low <= record["D - A, recall@1"][0] <= high
    values = [record["results"][kind][0]["recall@10"] for kind in "AD"]
    assert f"{100 * values[1]:.1f}" in capsys.readouterr().out
    assert min(values) > 10 / 700  # of about 700 products
    assert (tmp_path / "product-search.png").stat().st_size > 10_000


def test_a_table_of_two_domains_is_read(tmp_path):
    data = table_of(tmp_path, ("scene", "product"))
    options = Namespace(data=data, image_size=32)
    (train, categories), *others = recipe.from_table(options)
    np.testing.assert_array_equal(categories, [int(label.split()[1]) % 3 for label in train[0].class_names])
    for split, pair in zip(SPLITS, (train, *others), strict=True):
        assert are_both_domains(pair, split, ("scene", "product"))
