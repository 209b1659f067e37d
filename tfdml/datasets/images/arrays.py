"""Image files to pixels by Pillow and NumPy: the form of `decode` and `fit` where TensorFlow is not installed."""

import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from tfdml._core.optional import optional_import
from tfdml.datasets.images import stills
from tfdml.datasets.images.exif import REVERSE_COLUMNS, REVERSE_ROWS, SWAP
from tfdml.datasets.images.fit import LUMA, ROUNDING, is_in_one_pixel
from tfdml.datasets.images.reasons import (
    BROKEN,
    JPEG,
    OTHER_KINDS,
    OTHER_STARTS,
    STARTS,
    empty_box,
    reasons,
    require_pixels,
)

_FILL = b"\xaa\x55" * 32  # as in `decode`
PADDING = _FILL + b"".join(bytes([0xFF, marker]) + _FILL for marker in range(0xD0, 0xD8))
_BLACK = np.zeros((1, 1, 3), np.uint8)
_PLUGINS = {"Jpeg": JPEG, "Png": STARTS[1], "Gif": STARTS[2], "WebP": b"RIFF"}


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
        image = _bmp(data) if data.startswith(b"BM") else _pixels(layers or still.file)
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
    has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    pixels = np.asarray(image.convert("RGBA" if has_alpha else "RGB"))
    return np.where(pixels[..., 3:] == 0, np.uint8(0), pixels) if has_alpha and kind == "Gif" else pixels


def _bmp(data):
    """Pixels of a BMP, which Pillow reads by masks and palettes that TensorFlow does not know."""
    begin, width, height = (stills.number(data, offset, 4) for offset in (10, 18, 22))
    bits, rows = stills.number(data, 28, 2), min(height, 2**32 - height)
    stride = (bits // 8 * width + 3) // 4 * 4
    lines = np.frombuffer(data, np.uint8, rows * stride, begin).reshape(rows, stride)[:, : bits // 8 * width]
    lines = lines[:: 1 if rows < height else -1]
    if bits > 8:
        return lines.reshape(rows, width, bits // 8)[..., 2::-1]
    start = 14 + stills.number(data, 14, 4)
    palette = np.frombuffer(data[start : start + 1024].ljust(1024, b"\0"), np.uint8).reshape(256, 4)
    return palette[:, 2::-1][lines]


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


def cut(problem: str, image: np.ndarray, box: Any, margin: float, is_query: bool = False) -> tuple[str, np.ndarray]:
    """The reason for no pixels, empty for none, and the pixels that a box `(4,)` touches, or the whole image."""
    sides, box = np.array(image.shape[:2], np.float64), np.asarray(box, np.float64)
    start, end = np.maximum(box[1::-1], 0.0), np.minimum(box[:1:-1], sides)
    valid = bool((end > start).all())  # False for NaN
    if is_query:
        valid &= bool((box[1::-1] >= -ROUNDING).all() and (box[:1:-1] <= sides + ROUNDING).all())
        valid &= not is_in_one_pixel(box.max(), sides.max())
    if not valid:
        text = ", ".join(f"{border:g}" for border in box)
        return problem or "".join(map(str, empty_box(text, *image.shape[1::-1]))), image
    grow = margin * (end - start)
    first, last = np.floor(np.maximum(start - grow, 0.0)), np.ceil(np.minimum(end + grow, sides))
    return problem, image[int(first[0]) : int(last[0]), int(first[1]) : int(last[1])]


def fitted(
    image: np.ndarray,
    *,
    size: tuple[int, int],
    resize: tuple[int, int],
    fit: str,
    fill: tuple[int, int, int],
    channels: int,
) -> np.ndarray:
    """RGB pixels `(any, any, 3)` as uint8 `(*size, channels)`; only the kept part is computed."""
    sides = _resized_sides(image.shape[:2], resize, fit)
    around = np.trunc((sides - resize) / 2).astype(int) if fit != "stretch" else 0
    corner = np.subtract(resize, size) // 2 + around
    start, end = np.maximum(corner, 0), np.minimum(corner + size, sides)
    pixels = to_channels(resized(image, sides, start, end), channels)
    if fit != "pad":
        return pixels
    result = np.empty((*size, channels), np.uint8)
    result[:] = to_channels(np.array(fill, np.float32), channels)
    first, last = start - corner, end - corner
    result[first[0] : last[0], first[1] : last[1]] = pixels
    return result


def _resized_sides(sides, resize, fit):
    """Height and width of the whole image after resizing, `(2,)`."""
    if fit == "stretch":
        return np.array(resize)
    scales = np.array(resize, np.float64) / sides
    scale = scales.min() if fit == "pad" else scales.max()
    return np.maximum(np.round(np.array(sides) * scale), 1).astype(int)


def to_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    """RGB in [0, 255], `(..., 3)`, as uint8 of 3 channels or 1: the luma 0.299 R + 0.587 G + 0.114 B."""
    if channels == 1:
        pixels = (pixels.astype(np.float32) * np.array(LUMA, np.float32)).sum(axis=-1, keepdims=True)
    return pixels if pixels.dtype == np.uint8 else np.round(pixels).astype(np.uint8)


def resized(image: np.ndarray, sides: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The part from `start` to `end` of an image resized to `sides`: float32, or the pixels where nothing changes.

    As `tf.image.resize(image, antialias=True)`: bilinear, with a kernel that widens where the image shrinks.
    """
    if tuple(sides) == image.shape[:2]:
        return image[start[0] : end[0], start[1] : end[1]]
    rows, columns = (_weights(image.shape[axis], sides[axis], start[axis], end[axis]) for axis in (0, 1))
    height, width, channels = image.shape
    lines = rows @ image.reshape(height, width * channels).astype(np.float32)
    lines = np.ascontiguousarray(lines.reshape(-1, width, channels).swapaxes(0, 1))
    return (columns @ lines.reshape(width, -1)).reshape(columns.shape[0], -1, channels).swapaxes(0, 1)


def _weights(old, new, start, end):
    """Weights `(end - start, old)` of the pixels of a line, a sparse matrix; they sum to 1 in each row."""
    from scipy.sparse import csr_array

    step = np.float32(1) / (np.float32(new) / np.float32(old))
    width = np.maximum(step, np.float32(1))  # of the kernel
    centers = (np.arange(end - start, dtype=np.float32) + np.float32(0.5)) * step + step * np.float32(start)
    first = np.clip(np.ceil(centers - width - np.float32(0.5)), 0, old - 1).astype(int)
    last = np.clip(np.floor(centers + width - np.float32(0.5)), 0, old - 1).astype(int)
    pixels = first[:, None] + np.arange((last - first).max() + 1)
    distances = np.abs(pixels.astype(np.float32) + np.float32(0.5) - centers[:, None]) * (np.float32(1) / width)
    weights = np.where(pixels <= last[:, None], np.maximum(np.float32(1) - distances, np.float32(0)), np.float32(0))
    weights *= np.float32(1) / weights.sum(axis=1, keepdims=True)
    counts = np.arange(len(pixels) + 1) * pixels.shape[1]
    return csr_array((weights.ravel(), np.minimum(pixels, old - 1).ravel(), counts), shape=(len(pixels), old))
