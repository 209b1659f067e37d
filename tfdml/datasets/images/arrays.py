"""Image files to pixels by Pillow and NumPy: the form of `decode` and `fit` where TensorFlow is not installed."""

import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from tfdml._core.optional import optional_import
from tfdml.datasets.images import stills
from tfdml.datasets.images.exif import REVERSE_COLUMNS, REVERSE_ROWS, SWAP
from tfdml.datasets.images.reasons import (
    BROKEN,
    JPEG,
    OTHER_KINDS,
    OTHER_STARTS,
    PADDING,
    STARTS,
    reasons,
    require_pixels,
)

_BLACK = np.zeros((1, 1, 3), np.uint8)
_PLUGINS = {"Jpeg": JPEG, "Png": STARTS[1], "Gif": STARTS[2], "Bmp": STARTS[3], "WebP": b"RIFF"}


class ImageError(ValueError):
    """There is no image; the message is the reason."""


ERRORS = (ImageError, OSError)


def contents(example: Any) -> tuple[bool, Any]:
    """Whether an example is the path of a file, and the content of the file, or else the pixels."""
    if not isinstance(example, str | bytes):
        return False, np.asarray(example)
    try:
        with open(example, "rb") as file:
            return True, file.read()
    except FileNotFoundError:
        raise ImageError("no such file") from None


def as_rgb(pixels: np.ndarray, background: tuple[int, int, int] | None) -> np.ndarray:
    """Pixels `(any, any, 1, 3 or 4)` as RGB."""
    require_pixels(pixels.shape, pixels.dtype.name)
    if pixels.shape[2] == 1:
        return np.repeat(pixels, 3, axis=2)
    return onto(pixels, background)


def require_image(problem: str, image: np.ndarray) -> np.ndarray:
    """The image; raises an `ImageError` with the reason if there is one."""
    if problem:
        raise ImageError(problem)
    return image


def decoded(
    file: bytes,
    max_bytes: int,
    max_pixels: int,
    inverse_dct: str = "accurate",
    background: tuple[int, int, int] | None = None,
) -> tuple[str, np.ndarray]:
    """The reason why there is no image, or an empty text, and uint8 `(height, width, 3)`, or one black pixel."""
    if inverse_dct != "accurate":
        optional_import("tensorflow", feature=f"inverse_dct={inverse_dct!r}", extra="tensorflow")
    data = file if len(file) <= max_bytes else b""
    kind = _first_start(data, STARTS)
    still = stills.READERS[kind](data)
    other = OTHER_KINDS[_first_start(data, OTHER_STARTS)]
    checks = reasons(len(file), max_bytes, max_pixels, kind, other, still, max)
    problem = next(("".join(map(str, texts)) for holds, texts in checks if holds), "")
    if problem:
        return problem, _BLACK
    optional_import("PIL", feature="Reading images without TensorFlow", extra="plots")
    try:
        layers = b"" if background is None else still.layers
        image = _pixels(layers or still.file)
    except Exception:  # Each damage fails in its own way.
        return BROKEN, _BLACK
    if image.shape[:2] != (still.height, still.width) or (still.frame >= 0 and _is_cut(image, still)):
        return BROKEN, _BLACK
    return "", upright(onto(image, background), stills.orientation(data, still.exif))


def is_transparent(file: bytes, max_bytes: int, max_pixels: int) -> bool:
    """Whether a file that can be decoded has pixels that are not opaque."""
    black, white = (decoded(file, max_bytes, max_pixels, background=(level,) * 3)[1] for level in (0, 255))
    return bool((black != white).any())


def _first_start(data, starts):
    """The number, from 1, of what a file begins with, or 0; a space is for any byte."""
    head = data[:12].ljust(12, b"\0")
    are_same = (all(x in (y, 32) for x, y in zip(start, head, strict=False)) for start in starts)
    return next((number for number, is_same in enumerate(are_same, start=1) if is_same), 0)


def onto(image: np.ndarray, background: tuple[int, int, int] | None) -> np.ndarray:
    """RGB or RGBA pixels, uint8 `(height, width, 3 or 4)`, as RGB over a color, rounded to the nearest level."""
    if background is None or image.shape[2] == 3:
        return image[..., :3]
    color, alpha = image[..., :3].astype(np.uint16), image[..., 3:].astype(np.uint16)
    behind = np.array(background, np.uint16) * (255 - alpha)
    return ((color * alpha + behind + 127) // 255).astype(np.uint8)


def _pixels(file):
    """RGB or RGBA pixels of a file by Pillow, which looks at nothing but its format."""
    kind = next(kind for kind, start in _PLUGINS.items() if file.startswith(start))
    image = getattr(importlib.import_module(f"PIL.{kind}ImagePlugin"), f"{kind}ImageFile")(io.BytesIO(file))
    image.load()
    if image.mode == "CMYK":
        pixels = np.asarray(image).astype(np.uint16)
        pixels = pixels if "adobe" in image.info else 255 - pixels
        return ((255 - pixels[..., :3]) * (255 - pixels[..., 3:]) // 255).astype(np.uint8)
    if image.mode.startswith("I"):
        return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, axis=2)
    if kind == "Png" and file[24] in (2, 4) and file[25] == 0 and "transparency" in image.info:  # counts in fewer bits
        image.info["transparency"] *= 255 // (2 ** file[24] - 1)
    has_alpha = kind != "Bmp" and (image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info)
    pixels = np.asarray(image.convert("RGBA" if has_alpha else "RGB"))
    return np.where(pixels[..., 3:] == 0, np.uint8(0), pixels) if has_alpha and kind == "Gif" else pixels


def _is_cut(image, still):
    """Whether the data of a JPEG end before its image is complete, see `decode`."""
    if not _ends_gray(image):
        return False
    end = stills.jpeg_markers(still.file, still.frame)[2]
    return bool((_pixels(still.file[:end] + PADDING + still.file[end:]) != image).any())


def _ends_gray(image):
    """Whether the last block is what libjpeg fills in for missing data: of RGB and gray; CMYK; YCCK."""
    first = [side - max((side - 1) % 8, 1) for side in image.shape[:2]]
    block = image[first[0] :, first[1] :]
    return bool((block == block.flat[0]).all()) and block.size > 0 and block.flat[0] in (128, 64, 63)


def upright(image: np.ndarray, orientation: int) -> np.ndarray:
    """An image `(height, width, channels)` rotated according to its orientation."""
    image = image.swapaxes(0, 1) if SWAP[orientation] else image
    return image[:: -1 if REVERSE_ROWS[orientation] else 1, :: -1 if REVERSE_COLUMNS[orientation] else 1]


def load_one(load: Callable[..., tuple[str, np.ndarray]]) -> Callable[..., tuple[np.ndarray, str]]:
    """Function of the content of a file, and of a box `(4,)` or none, that returns pixels and a reason."""
    return lambda file, box=None: load(file, *([] if box is None else [box]))[::-1]
