"""Typefaces: the font files in matplotlib's wheel, and their characters drawn with Pillow."""

import dataclasses
import hashlib
import importlib.util
import os
import pathlib
import string
import zlib
from typing import Any

import numpy as np

from tfdml._core.optional import optional_import

MASTER = 128  # pixels, the side of a drawing
BASELINE = 88  # row
X_HEIGHT = 44  # pixels
_LETTERS = string.ascii_letters

# The sha256 of each file by its design and name.
_WHEEL = {
    "DejaVu Sans": {
        "DejaVuSans": "3fdf69cabf06049ea70a00b5919340e2ce1e6d02b0cc3c4b44fb6801bd1e0d22",
        "DejaVuSans-Bold": "b184b89e3c1075f22f6b71575b6fc20d4972b3cfd3b23322ca6fd596dcaef167",
        "DejaVuSans-Oblique": "ccdf74b350f11fd3dd5774de50e5e6346a1a5da1f5b7d5fb83590665e97a5213",
        "DejaVuSans-BoldOblique": "6edf0283160186af451cbee71e7b845f2e4cabf264bb992ce668c83c25465e6f",
    },
    "DejaVu Sans Mono": {
        "DejaVuSansMono": "602ec86b8948cfcd956482fe64f94c36c867770149ef2f791d4613f443bcecb3",
        "DejaVuSansMono-Bold": "baada9a5172fe20886251aff0433fc38461912d5daf07287e7bee56620a8da96",
        "DejaVuSansMono-Oblique": "28052813f7a709fc89f52d192dc995ef4f0fdc5c3d7b73a49d6849b1916d0cd0",
        "DejaVuSansMono-BoldOblique": "a69081c15c76c827e0a27a5a7f5c74b6135c843499955495ffa8c20d3a98288b",
    },
    "DejaVu Serif": {
        "DejaVuSerif": "107244956e9962b9e96faccdc551825e0ae0898ae13737133e1b921a2fd35ffa",
        "DejaVuSerif-Bold": "c3753f2ed6bc673f15846dc45addbeb3b9c872f32fb18fd53a21f1bef1ed7676",
        "DejaVuSerif-Italic": "3e7994fbc54fa10ce3352a42d548fadd7d9cadb69cb1109bc9d960f6dac57f04",
        "DejaVuSerif-BoldItalic": "d93efec7a9d2e826768d1a2ee95b95870e15e29599a84f3484af1de1cec2e181",
    },
    "STIX General": {
        "STIXGeneral": "167378031e2dddc6216d67819c9260e9a06ffc4c478e4e23cb98a6fd44b183c2",
        "STIXGeneralBol": "e8533dc7083fa346bda1933d60ea4a83b67d0945bceaf1b3541f82b4a0e2c6a0",
        "STIXGeneralItalic": "6cfcb333d22b7c3c623bdfd40174f14c85c3d6731ca6166c1edc80140eae8527",
        "STIXGeneralBolIta": "98788fd4ba48dfbb2bd026c0e20a247a8b06c7372879628b7a6bb0d5bb09736c",
    },
    "Computer Modern": {
        "cmr10": "4dd9761b058c009db9b2145f55ee6617d093c273dd3d6c5b3e43ff6110fa9bf6",
        "cmb10": "074497b50c43ea57597181591f9893d38fc12a87e95104f5657fc2481f61a23a",
        "cmss10": "7df91a83d05b2e471ec638cb0b435a360a3c792b09fc42a7da67e91f2e79115a",
        "cmtt10": "6211f09ae93599991afda970c24669dad1a77e253d915624fbf212f702f071d7",
        "cmmi10": "3092965b8811fd6a6765799664845181fc1dd1330b937f915808c485d316234d",
    },
}
# Characters to draw, of other files all letters and numbers that they map: files of Computer Modern map only ASCII to
# Unicode; the digits of cmmi10 are old style.
_CHARACTERS = {**dict.fromkeys(("cmr10", "cmb10", "cmss10", "cmtt10"), _LETTERS + string.digits), "cmmi10": _LETTERS}
WHEEL_FACES = tuple(name for files in _WHEEL.values() for name in files)
WHEEL_DESIGNS = tuple(design for design, files in _WHEEL.items() for _ in files)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Face:
    """One font file and the characters to draw, None for all letters and numbers; its name seeds the distortions."""

    name: str
    design: str
    path: pathlib.Path
    characters: str | None = None

    @property
    def id(self) -> int:
        """crc32 of the name: the part of an image's key that identifies the face."""
        return zlib.crc32(self.name.encode())


def sha256(path: str | os.PathLike[str]) -> str:
    """Hex sha256 of a file."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def wheel_folder() -> pathlib.Path:
    """The folder of font files of the installed matplotlib, located without an import."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise ImportError(
            "The glyphs are drawn from the font files inside matplotlib, which is not installed. "
            "Run: pip install tfdml[plots]"
        )
    return pathlib.Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"


def wheel_faces(folder: str | os.PathLike[str] | None = None) -> list[Face]:
    """The 21 faces of the default set, each file checked, from the folder of matplotlib or another one."""
    folder = wheel_folder() if folder is None else pathlib.Path(folder)
    faces = []
    for design, files in _WHEEL.items():
        for name, digest in files.items():
            path = folder / f"{name}.ttf"
            received = f"sha256 {sha256(path)}" if path.is_file() else "no such file"
            if received != f"sha256 {digest}":
                raise ValueError(
                    f"Received the font file {path}: {received}, expected sha256 {digest}. The glyphs are drawn from "
                    "the files in matplotlib 3.6 to 3.11. Reinstall matplotlib from its wheel; a system package may "
                    "replace its fonts."
                )
            faces.append(Face(name=name, design=design, path=path, characters=_CHARACTERS.get(name)))
    return faces


def open_font(face: Face) -> Any:
    """The face as a Pillow font, scaled so that its `x` is 44 pixels high, laid out without shaping."""
    fonts = optional_import("PIL.ImageFont", feature="A drawing of glyphs", extra="plots")
    basic = fonts.Layout.BASIC
    top = fonts.truetype(face.path, 1000, layout_engine=basic).getbbox("x", anchor="ls")[1]
    return fonts.truetype(face.path, X_HEIGHT * 1000 / -top, layout_engine=basic)


def draw(font: Any, code_point: int) -> np.ndarray | None:
    """One character, `(128, 128)` uint8, centered, its baseline at row 88; None without ink, or if it does not fit."""
    from PIL import Image, ImageDraw

    canvas = Image.new("L", (3 * MASTER, 3 * MASTER))
    ImageDraw.Draw(canvas).text((MASTER, MASTER + BASELINE), chr(code_point), fill=255, font=font, anchor="ls")
    box = canvas.getbbox()
    if box is None:
        return None
    left, top, right, bottom = box
    if right - left > MASTER or top < MASTER or bottom > 2 * MASTER:
        return None
    start = (left + right) // 2 - MASTER // 2
    return np.asarray(canvas.crop((start, MASTER, start + MASTER, 2 * MASTER)))


def reduce(drawings: np.ndarray, side: int) -> np.ndarray:
    """Means over blocks: `(n, 128, 128)` uint8 -> `(n, side, side)` float32 in [0, 1]."""
    block = MASTER // side
    blocks = drawings.reshape(-1, side, block, side, block)
    return blocks.mean(axis=(2, 4), dtype=np.float32) / np.float32(255)
