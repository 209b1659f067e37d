"""Which drawings are chosen and which characters are one class."""

import numpy as np
import pytest

from tfdml.datasets.glyphs import glyph_set, typefaces
from tools import make_glyphs_manifest as selection

RNG = np.random.default_rng(1)
SHAPES = {name: (RNG.random(64) < 0.5).astype(np.float32) for name in "abcdefghij"}


@pytest.fixture
def small(monkeypatch):
    """Rules for pictures of 64 pixels and few faces."""
    monkeypatch.setattr(selection, "INK", 2.0)
    monkeypatch.setattr(selection, "IMAGES", 2)


def choose(table):
    """Selects from {code point: one shape a face, '.' where the face lacks it}: list of (class, code point, face)."""
    rows = [(c, face, SHAPES[s]) for c, shapes in table.items() for face, s in enumerate(shapes) if s != "."]
    code_points, faces, pictures = zip(*rows, strict=True)
    chosen, _ = selection.select(np.stack(pictures), code_points, faces)
    return list(zip(chosen.classes.tolist(), chosen.code_points.tolist(), chosen.faces.tolist(), strict=True))


def rows(*codes_and_faces, of=None):
    """Selected drawings, each in the class of its code point, or of another one."""
    return [(of or c, c, face) for c, faces in codes_and_faces for face in faces]


SELECTED = {
    "different characters stay apart": ({1: "ab", 2: "cd"}, rows((1, (0, 1)), (2, (0, 1)))),
    "the same in every face is one class, without repeats": ({1: "ab", 2: "ab"}, rows((1, (0, 1)))),
    "the same in all three of its faces": ({1: "abc....", 2: "abc...."}, rows((1, (0, 1, 2)))),
    "the same in three of seven faces, with the others as images": (
        {1: "abcdefg", 2: "abchijd"},
        rows((1, range(7)), (2, (3, 4, 5)), of=1),
    ),
    "the same in two of five faces stays apart, without these images": (
        {1: "abcde", 2: "abfgh"},
        rows((1, (2, 3, 4)), (2, (2, 3, 4))),
    ),
    "images alike across classes go in different faces, too": ({1: "abc", 2: "dea"}, rows((1, (1, 2)), (2, (0, 1)))),
    "small classes go": ({1: "ab", 2: "c."}, rows((1, (0, 1)))),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("table", "expected"), SELECTED.values(), ids=SELECTED)
def test_drawings_are_selected_by_the_rules(table, expected):
    assert choose(table) == expected


def test_a_manifest_comes_back_as_it_was_saved(tmp_path, monkeypatch):
    chosen = [np.array([65, 65, 65, 913]), np.array([65, 65, 913, 120000]), np.array([0, 31, 4, 2])]
    selection.save_manifest(tmp_path / "m.npz", glyph_set.Selection(*chosen))
    monkeypatch.setattr(glyph_set, "_MANIFEST", tmp_path / "m.npz")
    for again, saved in zip(glyph_set.load_manifest(), chosen, strict=True):
        np.testing.assert_array_equal(again, saved)
        assert again.dtype == np.int64


@pytest.mark.slow
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
