"""Reasons why there is no image of a file: one sentence per kind, for both forms of the decoder."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from tfdml._core.checks import require
from tfdml.datasets.images import MAX_SCANS

BROKEN = "an image that cannot be decoded, expected a whole file. Copy or send it again, or convert it to PNG."
_EXPECTED = "expected a JPEG, PNG, GIF, BMP or WebP file."
JPEG = b"\xff\xd8\xff"  # the first bytes
_FILL = b"\xaa\x55" * 32  # decodes to visible pixels
PADDING = _FILL + b"".join(bytes([0xFF, marker]) + _FILL for marker in range(0xD0, 0xD8))  # with restart markers
STARTS = (JPEG, b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF    WEBP")  # of the formats that are read
_NAMES = {
    **{b"    ftyp" + brand: "a HEIC file" for brand in (b"heic", b"heix", b"heim", b"hevc", b"mif1", b"msf1")},
    **{b"    ftyp" + brand: "an AVIF file" for brand in (b"avif", b"avis")},
    b"II*\x00": "a TIFF file",
    b"MM\x00*": "a TIFF file",
    b"\x00\x00\x00\x0cJXL ": "a JPEG XL file",
    b"\xff\x0a": "a JPEG XL file",
    b"\x00\x00\x00\x0cjP  ": "a JPEG 2000 file",
    b"8BPS": "a Photoshop file",
    b"%PDF": "a PDF file",
}
OTHER_STARTS = tuple(_NAMES)
# The kind of a file that is not read, by the number of its start, from 1; 0 for another one.
OTHER_KINDS = (
    f"not an image, {_EXPECTED}",
    *(f"{name}, {_EXPECTED} Convert it, for example by ImageMagick." for name in _NAMES.values()),
)
_SCANS = f" scans, expected at most {MAX_SCANS}. Save the JPEG without progressive scans."
_MARGIN = " pixels, expected left < right and upper < lower inside the image, in pixels. Correct the box."


def reasons(
    size: Any, max_bytes: Any, max_pixels: Any, kind: Any, other: Any, header: Any, larger: Callable[[Any, Any], Any]
) -> tuple[tuple[Any, Sequence[Any]], ...]:
    """Conditions under which there is no image, the first one that holds counts, each with texts and numbers to join.

    `size` of the file, limits, `kind`, 0 for none that is read, and `header` are numbers, or tensors; `larger` is the
    maximum of two of them.
    """
    return (
        (size > max_bytes, [size, " bytes, expected at most ", max_bytes, ". Send a smaller file."]),
        (kind == 0, [size, " bytes that are ", other]),
        (header.scans > MAX_SCANS, [header.scans, _SCANS]),
        ((header.width < 1) | (header.height < 1), [BROKEN]),
        (
            header.width > max_pixels // larger(header.height, 1),  # the product may exceed int64
            [header.width, " x ", header.height, " pixels, expected at most ", max_pixels, ". Send a smaller image."],
        ),
    )


def empty_box(box: Any, width: Any, height: Any) -> list[Any]:
    """Texts, and texts of numbers, of the reason for a box outside its image."""
    return ["the box (", box, ") of an image of ", width, " x ", height, _MARGIN]


def require_pixels(shape: Sequence[int | None] | None, dtype: str) -> None:
    """Raise a ValueError for what is neither a path nor the pixels of an image."""
    is_image = dtype == "uint8" and shape is not None and len(shape) == 3 and shape[2] in (1, 3, 4)
    received = f"pixels of shape {shape if shape is None else tuple(shape)} and type {dtype}"
    require(is_image, received, "uint8 (height, width, channels) with 1, 3 or 4 channels, or a path")


def reason_of(error: Exception, name: Any = None) -> str:
    """The message of an error, without the name of the file, nor the nodes of the graph that TensorFlow adds."""
    if type(error).__name__ == "NotFoundError":
        return "no such file"
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    lines = re.sub(r"\s*\[\[\{\{node .*", "", text, flags=re.DOTALL).strip().splitlines()
    line = re.sub(r"^\{\{function_node .*?\}\} |^assertion failed: ", "", lines[-1].strip() if lines else "")
    line = re.sub(r"^.*Summarized data: b(['\"])(.*)\1$", r"\2", line)  # of an assertion outside graphs
    line = line.replace("] [", " ").strip("[]").removeprefix("Received ").removeprefix(f"{name}: ")
    return line or type(error).__name__
