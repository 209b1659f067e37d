"""Finding, checking and drawing typefaces."""

import shutil

import numpy as np
import pytest

from tfdml.datasets.glyphs import typefaces
from tools.make_glyphs_manifest import code_points_of


@pytest.fixture(scope="module")
def faces():
    return {face.name: face for face in typefaces.wheel_faces()}


def ink_rows(drawing):
    return np.flatnonzero(drawing.max(axis=1))


def test_there_are_21_faces_of_5_designs(faces):
    assert tuple(faces) == typefaces.WHEEL_FACES
    assert len(faces) == 21
    assert tuple(face.design for face in faces.values()) == typefaces.WHEEL_DESIGNS
    assert len(set(typefaces.WHEEL_DESIGNS)) == 5


def test_a_font_file_that_differs_is_named(tmp_path):
    shutil.copytree(typefaces.wheel_folder(), tmp_path, dirs_exist_ok=True)
    with open(tmp_path / "STIXGeneralBol.ttf", "ab") as file:
        file.write(b"x")
    with pytest.raises(ValueError, match=r"STIXGeneralBol.ttf: sha256 [0-9a-f]{64}, expected sha256 e8533dc7"):
        typefaces.wheel_faces(tmp_path)
    (tmp_path / "STIXGeneralBol.ttf").unlink()
    with pytest.raises(ValueError, match=r"STIXGeneralBol.ttf: no such file, expected sha256"):
        typefaces.wheel_faces(tmp_path)


@pytest.mark.parametrize("name", typefaces.WHEEL_FACES)
def test_an_x_stands_on_row_88_and_is_44_pixels_high_in_every_face(faces, name):
    rows = ink_rows(typefaces.draw(typefaces.open_font(faces[name]), ord("x")))
    # Round strokes reach a pixel over the line.
    assert rows[0] == pytest.approx(88 - 44, abs=1)
    assert rows[-1] == pytest.approx(88 - 1, abs=1)


def test_ink_is_centered_sideways_and_a_capital_is_larger(faces):
    font = typefaces.open_font(faces["DejaVuSans"])
    for character in "oOiJ":
        columns = np.flatnonzero(typefaces.draw(font, ord(character)).max(axis=0))
        assert (columns[0] + columns[-1]) / 2 == pytest.approx(63.5, abs=1)
    heights = [len(ink_rows(typefaces.draw(font, ord(c)))) for c in "oO"]
    assert heights[1] > 1.25 * heights[0]


def test_what_has_no_ink_or_does_not_fit_is_not_drawn(faces):
    font, bold = (typefaces.open_font(faces[name]) for name in ("DejaVuSans", "DejaVuSans-Bold"))
    assert typefaces.draw(font, ord(" ")) is None
    assert typefaces.draw(font, 0x1671).shape == (128, 128)
    assert typefaces.draw(bold, 0x1671) is None  # a wide Canadian syllable


def test_computer_modern_gives_ascii_only(faces):
    assert "".join(map(chr, code_points_of(faces["cmmi10"]))).isalpha()
    assert len(code_points_of(faces["cmmi10"])) == 52
    assert len(code_points_of(faces["cmr10"])) == 62


def test_blocks_are_averaged():
    drawing = np.zeros((1, 128, 128), np.uint8)
    drawing[0, 0, 0] = 255
    assert typefaces.reduce(drawing, 64)[0, 0, 0] == 0.25
    assert typefaces.reduce(drawing, 32)[0, 0, 0] == 1 / 16
