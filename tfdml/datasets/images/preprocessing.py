"""Preprocessing of images at test time: one object for evaluation, embedding and export."""

import dataclasses
import functools
import hashlib
import importlib
import json
import numbers
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from tfdml._core.checks import require, require_whole, unreadable
from tfdml._core.optional import has_tensorflow, optional_import
from tfdml._core.serialization import Settings, serializable
from tfdml.datasets.images import MAX_BYTES, MAX_PIXELS
from tfdml.datasets.images.augmentation import as_sides
from tfdml.datasets.images.fit import cut, fitted, to_channels
from tfdml.datasets.images.reasons import reason_of

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

_FITS = ("stretch", "pad", "crop")
_INVERSE_DCTS = ("accurate", "fast")


@serializable
@dataclasses.dataclass(frozen=True, kw_only=True)
class Preprocessing(Settings):
    """Reads one image and gives it the size that a network takes: a function for `load=` and for `saved_model`.

    1. Decode a file, JPEG, PNG, GIF, BMP or WebP, regardless of its suffix, and rotate it by its Exif orientation.
    2. With `boxes`, cut the image to its bounding box.
    3. Resize it bilinearly with antialiasing to `resize`, as `fit` says.
    4. Take the center of `size`.

    It drops alpha unless there is a `background`, reduces 16-bit samples to their upper 8 bits, converts palettes, gray
    and CMYK to RGB, and ignores color profiles. Only the first frame of an animation is read. A truncated file is an
    error, including a truncated JPEG with an added end mark, unless only its last block of pixels or complete scans of
    a progressive file are missing. A JPEG of more than 32 scans is an error: a small file of thousands would take
    minutes.

    Call it with a path, a string `()`; with pixels, uint8 `(any, any, channels)` of 1, 3 or 4 channels; or, with
    `boxes`, with a tuple of one of these and a box `(4,)`. It returns uint8 `(height, width, channels)`, and raises a
    ValueError that names the file for one that is missing, cannot be decoded or exceeds a limit, and for an empty box;
    in a graph, it is a `tf.errors.InvalidArgumentError`. Where TensorFlow is not installed, Pillow decodes and NumPy
    resizes: the same pixels, but for rare ties of rounding, as arrays of NumPy.

    Example: a wide image, stretched.

        >>> image = np.full((2, 4, 1), 200, "uint8")
        >>> tfdml.datasets.Preprocessing(size=4, channels=1)(image).numpy()[..., 0]
        array([[200, 200, 200, 200],
               [200, 200, 200, 200],
               [200, 200, 200, 200],
               [200, 200, 200, 200]], dtype=uint8)

    Args:
        size: side of the square result in pixels, or `(height, width)`.
        resize: side or `(height, width)` before the center crop, at least `size`; None: `size`, without a crop.
        fit: "stretch": both sides become `resize`, whatever the aspect ratio; "pad": the image fits inside `resize`,
            centered on the color `fill`; "crop": it covers `resize`, cut symmetrically.
        fill: color of the padding: a gray level or `(red, green, blue)`, from 0 to 255.
        channels: 3 for color, 1 for gray, the luma 0.299 R + 0.587 G + 0.114 B.
        boxes: first cut each image to its box, `(left, upper, right, lower)` in pixels of the upright image. The part
            of a box outside the image is cut off; pixels that it touches belong to it.
        margin: share of the box's width and height to add on each side.
        max_bytes: maximum size of a file; 20 MiB is enough for the largest photos of phones.
        max_pixels: maximum of width times height, checked in the header; 8192 x 8192 takes 200 MB decoded.
        background: color behind transparent pixels, as `fill`. None: alpha is dropped, and the colors hidden under
            transparent pixels count; they are black in a GIF, and anything in cut-outs.
        inverse_dct: "accurate": the pixels of a JPEG as Pillow and OpenCV decode it; "fast": an approximation that
            differs from them by 1 to 2 gray levels in the mean and up to 14.
    """

    size: int | tuple[int, int]
    resize: int | tuple[int, int] | None = None
    fit: Literal["stretch", "pad", "crop"] = "stretch"
    fill: int | tuple[int, int, int] = 0
    channels: int = 3
    boxes: bool = False
    margin: float = 0.0
    max_bytes: int = MAX_BYTES
    max_pixels: int = MAX_PIXELS
    inverse_dct: Literal["accurate", "fast"] = "accurate"
    background: int | tuple[int, int, int] | None = None

    def __post_init__(self):
        for name in ("size", "resize", "fill", "background"):
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)  # as read from JSON
        size, resize = self.shape[:2], self._resized_sides
        expected = f"at least size={self.size!r}, which is cut out of it"
        require(resize[0] >= size[0] and resize[1] >= size[1], f"resize={self.resize!r}", expected)
        require(self.fit in _FITS, f"fit={self.fit!r}", "'stretch', 'pad' or 'crop'")
        require(self.inverse_dct in _INVERSE_DCTS, f"inverse_dct={self.inverse_dct!r}", "'accurate' or 'fast'")
        _as_color("fill", self.fill)
        _as_color("background", 0 if self.background is None else self.background)
        require(self.channels in (1, 3), f"channels={self.channels!r}", "1 (gray) or 3 (color)")
        require(self.margin >= 0, f"margin={self.margin!r}", "a share of 0 or more")
        require(self.boxes or not self.margin, f"margin={self.margin!r} and boxes=False", "boxes=True for a margin")
        require_whole("max_bytes", self.max_bytes, 1)
        require_whole("max_pixels", self.max_pixels, 1)

    def __repr__(self) -> str:
        """The settings that `get_config` states."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__qualname__}({settings})"

    def get_config(self) -> dict[str, Any]:
        """The settings by name; the background only if there is one."""
        config = super().get_config()
        return config if self.background is not None else {k: v for k, v in config.items() if k != "background"}

    @classmethod
    def for_model(cls, model: "keras.Model") -> Self:
        """Images stretched to the input of a Keras model of images, of a fixed size; of a preset, as it was trained."""
        shape = tuple(model.input_shape[1:]) if isinstance(model.input_shape, tuple) else ()
        expected = "an input (height, width, channels) of fixed size; or pass the preprocessing"
        require(len(shape) == 3 and None not in shape, f"a model of inputs {model.input_shape}", expected)
        return cls(size=shape[:2], channels=shape[2], fit=getattr(model, "image_fit", "stretch"))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the result."""
        return *as_sides("size", self.size), self.channels

    @property
    def _resized_sides(self):
        return as_sides("resize", self.size if self.resize is None else self.resize)

    @property
    def uncropped(self) -> "Preprocessing":
        """The same without the center crop, to take random crops in training."""
        return self if self.resize is None else dataclasses.replace(self, size=self.resize, resize=None)

    def fingerprint(self) -> str:
        """16 hexadecimal digits of the settings that change the pixels of a whole image, the same for 32 and (32, 32).

        Limits and boxes do not count: queries with boxes search in a gallery of whole images.
        """
        sides = self.shape[:2], self._resized_sides
        fill = _as_color("fill", self.fill) if self.fit == "pad" else None
        background = [] if self.background is None else [self._background]
        settings = [*sides, self.fit, fill, self.channels, self.inverse_dct, *background]
        return hashlib.sha256(json.dumps(settings, default=int).encode()).hexdigest()[:16]

    def __call__(self, example: Any) -> "tf.Tensor | np.ndarray":
        """One example as uint8 `(height, width, channels)`."""
        return self._named(lambda example: self._fitted(self._pixels(example)), example)

    def original(self, example: Any) -> Any:
        """One example before resizing: upright, cut to its box, uint8 `(any, any, channels)`."""
        return self._named(lambda example: to_channels(self._pixels(example), self.channels), example)

    def _named(self, read, example):
        """`read(example)`, whose errors name the file and the reason."""
        try:
            return read(example)
        except form().ERRORS as error:  # none in a graph, which has no values yet
            key = np.asarray(example[0] if self.boxes else example)
            item = key.item() if key.ndim == 0 else None
            name = "" if item is None else f"{item.decode() if isinstance(item, bytes) else item}: "
            raise unreadable(f"Received {name}{reason_of(error)}") from None

    def from_bytes(self, file: Any, box: Any = None) -> "tf.Tensor | np.ndarray":
        """The result for the content of a file, a string `()`, and its box `(4,)`."""
        return self._fitted(form().require_image(*self._decoded(file, box)))

    def batch_from_bytes(self, files: "tf.Tensor", boxes: "tf.Tensor | None" = None) -> "tuple[tf.Tensor, tf.Tensor]":
        """uint8 `(batch, height, width, channels)`, black without an image, and reasons `(batch,)`, empty with one.

        `files` are strings `(batch,)`, `boxes` are `(batch, 4)` or None.
        """
        optional_import("tensorflow", feature="Preprocessing.batch_from_bytes", extra="tensorflow")
        return form().load_batch(self._loaded, (files,) if boxes is None else (files, boxes), self.shape)

    def reader(self) -> Callable[..., tuple[np.ndarray, str]]:
        """A function of the content of a file that returns its pixels, and the reason for none, empty if there is none.

        A second argument is a box `(4,)`, also where `boxes` is False: the function crops the image to it, with
        `margin`, as a set with boxes does. Without a box, it reads the whole image. A box that is empty, looks like
        shares of the image, or exceeds the image by more than one pixel is a reason, too. Threads may call the function
        at the same time. The first call of each form compiles it.

        Example:

            >>> import tensorflow as tf
            >>> read = tfdml.datasets.Preprocessing(size=8).reader()
            >>> file = tf.io.encode_png(np.zeros((4, 4, 3), "uint8")).numpy()
            >>> pixels, reason = read(file, (1, 1, 3, 4))
            >>> pixels.shape, reason
            ((8, 8, 3), '')
            >>> read(b"text")[1][:24], read(file, (1, 1, 9, 9))[1][:39]
            ('4 bytes that are not an ', 'the box (1, 1, 9, 9) of an image of 4 x')
        """
        return form().load_one(partial(self._loaded, is_query=True))

    def _loaded(self, file, box=None, *, is_query=False):
        """A reason, empty if there is none, and the result for a file's content; a query may have a box."""
        problem, image = self._decoded(file, box, is_query=is_query)
        return problem, self._fitted(image)

    def _pixels(self, example):
        """RGB pixels of a path or of pixels, with or without a box."""
        example, box = example if self.boxes else (example, None)
        is_file, content = form().contents(example)
        image = self._decoded(content, box) if is_file else self._cut("", form().as_rgb(content, self._background), box)
        return form().require_image(*image)

    def _decoded(self, file, box=None, *, is_query=False):
        """A reason, empty if there is none, and the RGB pixels of a file's content inside its box."""
        received = f"boxes={self.boxes} {'and no' if box is None else 'and a'} box"
        require(is_query or (box is not None) == self.boxes, received, "both or none")
        image = form().decoded(file, self.max_bytes, self.max_pixels, self.inverse_dct, self._background)
        return self._cut(*image, box, is_query)

    @property
    def _background(self):
        return None if self.background is None else _as_color("background", self.background)

    def _cut(self, problem, image, box, is_query=False):
        return (problem, image) if box is None else cut(problem, image, box, self.margin, is_query)

    def _fitted(self, image):
        sides = {"size": self.shape[:2], "resize": self._resized_sides}
        return fitted(image, **sides, fit=self.fit, fill=_as_color("fill", self.fill), channels=self.channels)


@functools.cache
def form() -> ModuleType:
    """The module that reads and resizes: in graphs of TensorFlow, or by Pillow and NumPy where it is not installed."""
    name = "decode" if has_tensorflow() else "arrays"
    return importlib.import_module(f"tfdml.datasets.images.{name}")


def _as_color(name, value):
    """A gray level or a color as a tuple of three."""
    color = tuple(value) if isinstance(value, tuple) else (value,) * 3
    whole = all(isinstance(level, numbers.Integral) and 0 <= level <= 255 for level in color)
    require(len(color) == 3 and whole, f"{name}={value!r}", "a gray level or (red, green, blue) in 0 to 255")
    return color
