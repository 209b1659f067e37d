"""Which drawings are chosen and which characters are one class."""

import numpy as np
import pytest

from tfdml.datasets.glyphs import glyph_set, selection, typefaces

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
    chosen = selection.select(np.stack(pictures), code_points, faces)
    return list(zip(chosen.classes.tolist(), chosen.code_points.tolist(), chosen.faces.tolist(), strict=True))


@pytest.mark.usefixtures("small")
def test_different_characters_stay_apart():
    assert choose({1: "ab", 2: "cd"}) == [(1, 1, 0), (1, 1, 1), (2, 2, 0), (2, 2, 1)]


@pytest.mark.usefixtures("small")
def test_the_same_in_every_face_is_one_class_and_the_repeats_go():
    assert choose({1: "ab", 2: "ab"}) == [(1, 1, 0), (1, 1, 1)]


@pytest.mark.usefixtures("small")
def test_the_same_in_three_of_seven_faces_is_one_class_with_the_other_faces_as_images():
    assert choose({1: "abc....", 2: "abc...."}) == [(1, 1, 0), (1, 1, 1), (1, 1, 2)]
    merged = choose({1: "abcdefg", 2: "abchijd"})
    assert {row[0] for row in merged} == {1}
    assert [row for row in merged if row[1] == 2] == [(1, 2, 3), (1, 2, 4), (1, 2, 5)]


@pytest.mark.usefixtures("small")
def test_the_same_in_two_faces_of_five_stays_apart_and_loses_these_images_on_both_sides():
    assert choose({1: "abcde", 2: "abfgh"}) == [(1, 1, 2), (1, 1, 3), (1, 1, 4), (2, 2, 2), (2, 2, 3), (2, 2, 4)]


@pytest.mark.usefixtures("small")
def test_the_only_shared_face_does_not_merge_characters_that_both_have_others():
    found = choose({1: "abc..", 2: "..cde"})
    assert {row[0] for row in found} == {1, 2}
    assert {row[0] for row in choose({1: "abc..", 2: "..c.."})} == {1}


@pytest.mark.usefixtures("small")
def test_images_alike_across_classes_go_in_different_faces_too():
    assert choose({1: "abc", 2: "dea"}) == [(1, 1, 1), (1, 1, 2), (2, 2, 0), (2, 2, 1)]


@pytest.mark.usefixtures("small")
def test_the_share_is_of_the_faces_that_have_both():
    # The same in three faces: of the six that both have, which is enough, though not of the nine of each.
    found = choose({1: "abcdefghi...", 2: "abcefd...ghi"})
    assert {row[0] for row in found} == {1}


def shades(*steps):
    """One shape in shades of gray; those 0.2 apart are the same, those 0.4 apart are not."""
    return np.stack([0.5 * SHAPES["a"] + step for step in steps]).astype(np.float32)


@pytest.mark.usefixtures("small")
def test_a_picture_is_a_repeat_only_of_one_that_stays():
    chosen = selection.select(shades(0.0, 0.2, 0.4), [1, 1, 1], [0, 1, 2])
    assert chosen.faces.tolist() == [0, 2]


@pytest.mark.usefixtures("small")
def test_a_picture_that_went_takes_none_of_another_class_with_it():
    pictures = np.concatenate([shades(0.0, 0.2, 0.4), [SHAPES["b"], SHAPES["c"]]])
    chosen = selection.select(pictures, [1, 1, 2, 1, 2], [0, 1, 2, 3, 4])
    assert list(zip(chosen.code_points, chosen.faces, strict=True)) == [(1, 0), (1, 3), (2, 2), (2, 4)]


@pytest.mark.usefixtures("small")
def test_small_classes_go():
    assert choose({1: "ab", 2: "c."}) == [(1, 1, 0), (1, 1, 1)]


def test_faint_characters_go(monkeypatch):
    monkeypatch.setattr(selection, "IMAGES", 1)
    monkeypatch.setattr(selection, "INK", 2.0)
    pictures = np.zeros((3, 64), np.float32)
    pictures[0, :1], pictures[1, :3], pictures[2, 40:41] = 1, 1, 1
    chosen = selection.select(pictures, [5, 5, 6], [0, 1, 0])
    assert set(chosen.code_points.tolist()) == {5}
    assert chosen.counts["drawings"] == 2


@pytest.mark.usefixtures("small")
def test_unicode_variants_are_further_faces_of_their_letter():
    found = choose({ord("A"): "ab", 0x1D400: "cd", 0x1D434: "ef"})
    assert {row[0] for row in found} == {ord("A")}
    assert len(found) == 6


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


def test_a_manifest_comes_back_as_it_was_saved(tmp_path):
    chosen = selection.Selection(
        classes=np.array([65, 65, 65, 913]),
        code_points=np.array([65, 65, 913, 120000]),
        faces=np.array([0, 31, 4, 2]),
        counts={},
    )
    selection.save_manifest(tmp_path / "m.npz", chosen)
    again = selection.load_manifest(tmp_path / "m.npz")
    for field in ("classes", "code_points", "faces"):
        np.testing.assert_array_equal(getattr(again, field), getattr(chosen, field))
        assert getattr(again, field).dtype == np.int64


@pytest.mark.slow
def test_the_script_reproduces_the_manifest_that_ships():
    made = glyph_set.select_glyphs(typefaces.wheel_faces())
    shipped = selection.load_manifest(glyph_set._MANIFEST)
    for field in ("classes", "code_points", "faces"):
        np.testing.assert_array_equal(getattr(made, field), getattr(shipped, field))
    assert made.counts == {
        "drawings": 32_492,
        "code points": 4_357,
        "code points merged away": 1_447,
        "repeated drawings dropped": 4_702,
        "images alike across classes dropped": 300,
        "small classes dropped": 1_184,
        "classes": 1_726,
        "images": 23_184,
    }
