"""Captions of glyphs: two towers of images and texts."""

import runpy
from pathlib import Path

RECIPE = str(Path(__file__).parents[2] / "recipes" / "captions.py")


def test_styles_are_those_of_the_names_of_typefaces():
    style_of = runpy.run_path(RECIPE)["style_of"]
    assert style_of("DejaVuSans-BoldOblique") == {"sans-serif", "bold", "slanted"}
    assert style_of("DejaVuSansMono") == {"monospaced"}
    assert style_of("STIXGeneralBolIta") == {"serif", "bold", "slanted"}
    assert style_of("cmtt10") == {"monospaced"}
