"""PhotoTourism from miniature scenes in the original format."""

import numpy as np
import pytest

import tfdml
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


def test_the_rates_of_the_protocol_come_from_the_rows_of_the_pairs(root):
    _, test = read(root)
    x = PIXELS[:PATCHES].reshape(PATCHES, -1)[:, :8].astype(np.float32)
    scores = tfdml.metrics.pair_scores(x[test.pairs.first], x[test.pairs.second])
    numbers = tfdml.metrics.verification(scores, test.pairs.same, far=(), folds=[0, 0, 1, 1])
    cosines = [
        a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        for a, b in zip(x[[0, 256, 1, 2]], x[[1, 257, 258, 258]], strict=True)
    ]
    assert numbers["fpr95"] == np.mean(np.array(cosines[2:]) >= min(cosines[:2]))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("info.txt", "7 0\n", "Received 1 patches in info.txt of notredame, expected 259"),
        ("info.txt", "7\n", "a line of 1 columns"),
        ("info.txt", "7 x\n", r"\['7 x'\] in notredame/info.txt, expected lines of whole numbers"),
        ("interest.txt", "1 2 3 4 5\n", "1 lines in notredame/interest.txt, expected 259, one per patch"),
        ("m50_4_4_0.txt", "0 7 0 1 7 0\n", r"a line of 6 columns \('0 7 0 1 7 0'\), expected 7"),
        ("m50_4_4_0.txt", "0 7 0 1 7 0 0\n", "1 pairs in notredame/m50_4_4_0.txt, expected 4, half of them matches"),
        ("m50_4_4_0.txt", 4 * "0 7 0 259 7 0 0\n", "m50_4_4_0.txt with other points than info.txt, expected the lists"),
        ("m50_4_4_0.txt", 4 * "0 7 0 2 7 0 0\n", "m50_4_4_0.txt with other points than info.txt"),
    ],
)
def test_damaged_lists_are_refused(name, text, message, root):
    (root / "notredame" / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read(root)
