"""Scenes search products, from tables."""

from argparse import Namespace

import numpy as np
import pytest

from recipes.product_search import __main__ as recipe
from tests.recipes.two_domains import SPLITS, are_both_domains, table_of

pytestmark = pytest.mark.slow


def test_a_table_of_two_domains_is_read(tmp_path):
    data = table_of(tmp_path, ("scene", "product"))
    options = Namespace(data=data, image_size=32)
    (train, categories), *others = recipe.from_table(options)
    np.testing.assert_array_equal(categories, [int(label.split()[1]) % 3 for label in train[0].class_names])
    for split, pair in zip(SPLITS, (train, *others), strict=True):
        assert are_both_domains(pair, split, ("scene", "product"))
