"""PhotoTourism from miniature scenes in the original format."""

import numpy as np
import pytest

from recipes.patches import phototour
from recipes.patches.data import phototour as reader
from tests.recipes.patches.miniatures import PATCHES, PIXELS, write_scene


@pytest.fixture
def root(tmp_path, monkeypatch):
    for scene in ("liberty", "notredame"):
        monkeypatch.setattr(reader, "COUNTS", reader.COUNTS | write_scene(tmp_path / scene))
    return tmp_path


def read(root, **options):
    return phototour(root, **{"train_pairs": 4, "test_pairs": 4, **options})


def test_patches_of_the_sheets_have_their_points_photographs_and_pairs(root):
    train, test = read(root)
    assert len(test) == PATCHES  # not 512
    assert test.class_names[:2] == ("7", "17")
    np.testing.assert_array_equal(test.labels, np.arange(PATCHES) // 2)
    np.testing.assert_array_equal(test.groups, np.arange(PATCHES) % 3)
    np.testing.assert_array_equal(test.take([0, 17, 255, 256, 258]).examples()[..., 0], PIXELS[[0, 17, 255, 256, 258]])
    assert test.examples().shape == (PATCHES, 64, 64, 1)
    assert test.source[-1].dtype == np.uint8
    assert test.pairs.names is None
    assert test.pairs.first.tolist() == [0, 1, 256, 2]
    assert test.pairs.second.tolist() == [1, 258, 257, 258]
    assert test.pairs.same.tolist() == [True, False, True, False]
    assert train.protocol == "phototour/liberty-train/fpr95-4/v1"
    assert test.protocol == "phototour/liberty-to-notredame/fpr95-4/v1"
    assert test.take([1]).pairs is None
