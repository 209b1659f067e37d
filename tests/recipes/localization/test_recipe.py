"""Photos find tiles of a map, from embedded data and from tables."""

from argparse import Namespace

import pytest

from recipes.localization import __main__ as recipe
from tests.recipes.quick import results_of
from tests.recipes.two_domains import SPLITS, are_both_domains, table_of

pytestmark = pytest.mark.slow


def test_towers_find_tiles_from_photos(tmp_path, monkeypatch, capsys):
    record = results_of(monkeypatch, recipe, tmp_path)
    assert list(record["results"]) == ["pixels", "separate", "shared"]
    assert record["results"]["pixels"][0]["recall@5"] > 2 * 5 / 40  # better than at random
    assert record["results"]["shared"][0]["recall@1%"] == record["results"]["shared"][0]["recall@1"]  # 1% of 40 is 1
    assert "recall@1%" in capsys.readouterr().out
    assert (tmp_path / "localization.png").stat().st_size > 10_000


def test_a_table_of_two_domains_is_read(tmp_path):
    data = table_of(tmp_path, ("photo", "tile"))
    pairs = recipe.from_table(Namespace(data=data, image_size=32))
    assert all(are_both_domains(pair, split, ("photo", "tile")) for split, pair in zip(SPLITS, pairs, strict=True))
