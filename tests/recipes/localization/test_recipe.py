"""Photos find tiles of a map, from tables."""

from argparse import Namespace

import pytest

from recipes.localization import __main__ as recipe
from tests.recipes.two_domains import SPLITS, are_both_domains, table_of

pytestmark = pytest.mark.slow


def test_a_table_of_two_domains_is_read(tmp_path):
    data = table_of(tmp_path, ("photo", "tile"))
    pairs = recipe.from_table(Namespace(data=data, image_size=32))
    assert all(are_both_domains(pair, split, ("photo", "tile")) for split, pair in zip(SPLITS, pairs, strict=True))
