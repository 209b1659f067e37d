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


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("table", "classes"),
    [
        ({1: "abc..", 2: "..cde"}, {1, 2}),  # the only shared face, of characters that have others
        ({1: "abc..", 2: "..c.."}, {1}),
        ({1: "abcdefghi...", 2: "abcefd...ghi"}, {1}),  # in three of the six faces that both have
        ({ord("A"): "ab", 0x1D400: "cd", 0x1D434: "ef"}, {ord("A")}),  # variants of Unicode
    ],
)
def test_characters_are_one_class_by_their_shared_faces_or_by_unicode(table, classes):
    assert {row[0] for row in choose(table)} == classes


def shades(*steps):
    """One shape in shades of gray; those 0.2 apart are the same, those 0.4 apart are not."""
    return np.stack([0.5 * SHAPES["a"] + step for step in steps]).astype(np.float32)


@pytest.mark.usefixtures("small")
def test_a_picture_is_a_repeat_only_of_one_that_stays():
    chosen, _ = selection.select(shades(0.0, 0.2, 0.4), [1, 1, 1], [0, 1, 2])
    assert chosen.faces.tolist() == [0, 2]


@pytest.mark.usefixtures("small")
def test_a_picture_that_went_takes_none_of_another_class_with_it():
    pictures = np.concatenate([shades(0.0, 0.2, 0.4), [SHAPES["b"], SHAPES["c"]]])
    chosen, _ = selection.select(pictures, [1, 1, 2, 1, 2], [0, 1, 2, 3, 4])
    assert list(zip(chosen.code_points, chosen.faces, strict=True)) == [(1, 0), (1, 3), (2, 2), (2, 4)]


def test_faint_characters_go(monkeypatch):
    monkeypatch.setattr(selection, "IMAGES", 1)
    monkeypatch.setattr(selection, "INK", 2.0)
    pictures = np.zeros((3, 64), np.float32)
    pictures[0, :1], pictures[1, :3], pictures[2, 40:41] = 1, 1, 1
    chosen, counts = selection.select(pictures, [5, 5, 6], [0, 1, 0])
    assert set(chosen.code_points.tolist()) == {5}
    assert counts["drawings"] == 2


@pytest.mark.parametrize(
    ("code_point", "letter"),
    [
        (0x1D400, "A"),  # mathematical bold
        (0x212A, "K"),  # Kelvin
        (0x2126, "Ω"),  # Ohm
        (0x1F71, "ά"),  # a singleton
        (0x00C5, "Å"),  # decomposes in two, so it is a letter of its own
        (0x212B, "Å"),  # Angstrom
        (0x00B2, "²"),  # <super>
        (0x0041, "A"),
    ],
)
def test_folding_follows_font_variants_and_singletons_only(code_point, letter):
    assert chr(selection.fold(code_point)) == letter


def test_same_pairs_are_those_of_a_plain_double_loop():
    rng = np.random.default_rng(2)
    pictures = rng.random((6, 100)).astype(np.float32)
    pictures = np.repeat(pictures, 5, axis=0) + rng.uniform(-0.17, 0.17, (30, 100)).astype(np.float32)
    expected = [[i, j] for i in range(30) for j in range(i + 1, 30) if np.abs(pictures[i] - pictures[j]).max() <= 0.3]
    assert 10 < len(expected) < 59
    assert sorted(selection.same_pairs(pictures).tolist()) == expected


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
