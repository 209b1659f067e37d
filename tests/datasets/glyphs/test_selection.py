"""Which drawings are chosen and which characters are one class."""

import numpy as np
import pytest

from tfdml.datasets.glyphs import glyph_set, typefaces
from tools import make_glyphs_manifest as selection


def test_a_manifest_comes_back_as_it_was_saved(tmp_path, monkeypatch):
    chosen = [np.array([65, 65, 65, 913]), np.array([65, 65, 913, 120000]), np.array([0, 31, 4, 2])]
    selection.save_manifest(tmp_path / "m.npz", glyph_set.Selection(*chosen))
    monkeypatch.setattr(glyph_set, "_MANIFEST", tmp_path / "m.npz")
    for again, saved in zip(glyph_set.load_manifest(), chosen, strict=True):
        np.testing.assert_array_equal(again, saved)
        assert again.dtype == np.int64


@pytest.mark.nightly  # draws all characters of all fonts, which change with the pin of Matplotlib alone
def test_the_script_reproduces_the_manifest_that_ships():
    made, counts = selection.select(*selection.drawn(typefaces.wheel_faces()))
    for ours, shipped in zip(made, glyph_set.load_manifest(), strict=True):
        np.testing.assert_array_equal(ours, shipped)
    assert counts == {
        "drawings": 32_492,
        "code points": 4_357,
        "code points merged away": 1_447,
        "repeated drawings dropped": 4_702,
        "images alike across classes dropped": 300,
        "small classes dropped": 1_184,
        "classes": 1_726,
        "images": 23_184,
    }
