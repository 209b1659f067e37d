"""Random crops for training: functions of an image and a seed, for `sampler.batches(..., augment=)`; turned batches."""

import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from tfdml._core.checks import require, require_whole
from tfdml._core.optional import has_tensorflow, tf
from tfdml._core.philox import array_functions, bits_of_seed
from tfdml.datasets.images.fit import resized

_TRIES = 10


@dataclasses.dataclass(frozen=True)
class RandomCrop:
    """A crop at a random place, mirrored with probability 1/2.

    All (H - height + 1)(W - width + 1) places in an image of H x W are equally likely.

    Example: a crop of 2 x 2.

        >>> image = np.arange(16).reshape(4, 4, 1)
        >>> crop = tfdml.datasets.RandomCrop(2, mirror=False)
        >>> crop(image, (0, 0)).numpy()[..., 0]
        array([[ 5,  6],
               [ 9, 10]])

    Args:
        size: side of the square crop, or `(height, width)`.
        mirror: whether to mirror half of the crops from left to right.

    Returns:
        A function of an image `(H, W, channels)` and a seed `(2,)`, integers, that returns an image `(height, width,
        channels)` of the same type. An image smaller than the crop is an error.
    """

    size: int | tuple[int, int]
    mirror: bool = dataclasses.field(default=True, kw_only=True)

    def __post_init__(self):
        as_sides("size", self.size)

    def __call__(self, image: "tf.Tensor", seed: "tf.Tensor") -> "tf.Tensor":
        """The crop."""
        size, bits = as_sides("size", self.size), bits_of_seed(seed, 3)
        image = _as_image(image, size)
        return _mirrored(_crop(image, _corner(image, size, bits[:2]), size), bits[2], self.mirror)


@dataclasses.dataclass(frozen=True)
class RandomResizedCrop:
    """A crop of random area and aspect ratio at a random place, resized, and mirrored with probability 1/2.

    Share of the area uniform in `area`; the logarithm of width / height uniform in the logarithms of `aspect`; height
    and width rounded. It takes the first of ten draws that fits inside the image, at a uniformly random place. If none
    fits, the largest centered crop of the nearest aspect ratio inside `aspect`. Resizing is bilinear with antialiasing.

    Example: from a quarter to all of an image whose columns are 0 to 7.

        >>> image = np.tile(np.arange(8, dtype="float32")[:, None], (8, 1, 1))
        >>> crop = tfdml.datasets.RandomResizedCrop(4, area=(0.25, 1.0), mirror=False)
        >>> crop(image, (0, 0)).numpy()[0, :, 0].round(2)
        array([3.25, 4.42, 5.58, 6.75], dtype=float32)

    Args:
        size: side of the square result, or `(height, width)`.
        area: smallest and largest share of the image's area.
        aspect: smallest and largest width / height.
        mirror: whether to mirror half of the crops from left to right.

    Returns:
        A function of an image `(any, any, channels)` and a seed `(2,)`, integers, that returns an image `(height,
        width, channels)` of the same type; integers are rounded.

    Source: Szegedy et al., Going Deeper with Convolutions, CVPR 2015, section 6; the ten draws and the centered crop
    follow `torchvision.transforms.RandomResizedCrop`.
    """

    size: int | tuple[int, int]
    area: tuple[float, float] = dataclasses.field(default=(0.08, 1.0), kw_only=True)
    aspect: tuple[float, float] = dataclasses.field(default=(3 / 4, 4 / 3), kw_only=True)
    mirror: bool = dataclasses.field(default=True, kw_only=True)

    def __post_init__(self):
        as_sides("size", self.size)
        require(0 < self.area[0] <= self.area[1] <= 1, f"area={self.area!r}", "0 < smallest <= largest <= 1")
        require(0 < self.aspect[0] <= self.aspect[1] < math.inf, f"aspect={self.aspect!r}", "0 < smallest <= largest")

    def __call__(self, image: "tf.Tensor", seed: "tf.Tensor") -> "tf.Tensor":
        """The resized crop."""
        image, bits = _as_image(image), bits_of_seed(seed, 2 * _TRIES + 3)
        whole = np.array(image.shape[:2]) if isinstance(image, np.ndarray) else tf.shape(image)[:2]
        corner, sides = self._place(whole, bits)
        return _mirrored(_resized(_crop(image, corner, sides), as_sides("size", self.size)), bits[-1], self.mirror)

    def _place(self, whole, bits):
        """Upper left corner and sides of the crop, int32 `(2,)` each."""
        sides, fits = self._draws(whole, bits[: 2 * _TRIES])
        np_, centered = array_functions(), self._centered(whole)
        chosen = np_.where(np_.any(fits), sides[np_.argmax(fits)], centered)
        random = np_.asarray(bits[2 * _TRIES : -1] % np_.asarray(whole - chosen + 1, np.int64), np.int32)
        return np_.where(np_.any(fits), random, (whole - chosen) // 2), chosen

    def _draws(self, whole, bits):
        """Sides `(tries, 2)` of random crops, and whether they fit inside the image."""
        np_ = array_functions()
        area, position = np_.split(np_.asarray(bits, np.float64) * 2.0**-64 + 0.5, 2)  # in [0, 1]
        area = (self.area[0] + area * (self.area[1] - self.area[0])) * np_.prod(np_.asarray(whole, np.float64))
        low, high = math.log(self.aspect[0]), math.log(self.aspect[1])
        aspect = np_.exp(low + position * (high - low))
        sides = _rounded(np_.sqrt(np_.stack([area / aspect, area * aspect], axis=1)))
        return sides, np_.all((sides >= 1) & (sides <= whole), axis=1)

    def _centered(self, whole):
        """Sides of the largest crop of an aspect ratio in `aspect` that is the nearest to the image's."""
        np_ = array_functions()
        height, width = np_.split(np_.asarray(whole, np.float64), 2)
        sides = [np_.minimum(height, width / self.aspect[0]), np_.minimum(width, height * self.aspect[1])]
        return np_.maximum(_rounded(np_.concatenate(sides)), 1)


def compose(*augmentations: Callable[..., Any]) -> Callable[..., Any]:
    """One augmentation after another, each with its own seed, `tf.random.fold_in(seed, number)`.

    Example: a crop, then a random change of brightness.

        >>> import tensorflow as tf
        >>> brightness = lambda image, seed: tf.image.stateless_random_brightness(image, 0.5, seed)
        >>> augment = tfdml.datasets.compose(tfdml.datasets.RandomCrop(2), brightness)
        >>> augment(np.ones((4, 4, 1), "float32"), (0, 1)).numpy().round(3).squeeze()
        array([[1.144, 1.144],
               [1.144, 1.144]], dtype=float32)

    Args:
        *augmentations: functions of an example and a seed.

    Returns:
        Function of an example and a seed `(2,)`; without augmentations, the example itself.
    """

    def augment(example: Any, seed: "tf.Tensor") -> Any:
        first = bits_of_seed(seed, 1)
        for number, augmentation in enumerate(augmentations):
            example = augmentation(example, array_functions().concatenate([first, np.array([number])]))
        return example

    return augment


def rotated_classes(images: "tf.Tensor", seed: "tf.Tensor", *, examples_per_class: int) -> "tf.Tensor":
    """Each class of a batch in one of the eight flips and quarter turns of a square, the same for all its examples.

    A rotated class is another class where orientation tells classes apart, as it does for patches of photographs.

        rotated = lambda step, batch: (rotated_classes(batch[0], (0, step), examples_per_class=4), batch[1])
        batches = sampler.batches(train).enumerate().map(rotated)

    Example: two classes with two equal examples each.

        >>> images = np.tile(np.arange(4).reshape(1, 2, 2, 1), (4, 1, 1, 1))
        >>> turned = tfdml.datasets.rotated_classes(images, (0, 1), examples_per_class=2).numpy()[..., 0]
        >>> turned[0], turned[2]
        (array([[2, 3],
               [0, 1]]), array([[1, 3],
               [0, 2]]))

    Args:
        images: `(batch, side, side, channels)`, the examples of a class one after the other.
        seed: two integers; all orientations are equally likely, and the same seed gives the same ones.
        examples_per_class: number of examples to turn alike; it divides the batch.
    """
    np_, count = array_functions(), examples_per_class
    images = np_.asarray(images)
    require_whole("examples_per_class", count, 1)
    is_square = len(images.shape) == 4 and None not in tuple(images.shape) and images.shape[1] == images.shape[2]
    expected = f"(batch, side, side, channels) with a multiple of {count} rows"
    require(is_square and images.shape[0] % count == 0, f"images of shape {images.shape}", expected)
    x = np_.reshape(images, (-1, count, *images.shape[1:]))
    bits = np_.reshape(
        _halves(bits_of_seed(seed, (3 * x.shape[0] + 1) // 2))[: 3 * x.shape[0]] % 2 > 0, (3, -1, 1, 1, 1, 1)
    )
    x = np_.where(bits[0], x[:, :, ::-1], x)
    x = np_.where(bits[1], x[:, :, :, ::-1], x)
    return np_.reshape(np_.where(bits[2], np_.swapaxes(x, 2, 3), x), images.shape)


def _rounded(values):
    return tf.cast(tf.round(values), tf.int32) if has_tensorflow() else np.round(values).astype(np.int32)


def as_sides(name: str, value: Any) -> tuple[int, int]:
    """A side or `(height, width)` as a tuple of two."""
    sides = tuple(value) if isinstance(value, tuple | list) else (value, value)
    whole = all(isinstance(side, numbers.Integral) and not isinstance(side, bool) for side in sides)
    require(len(sides) == 2 and whole and min(sides) >= 1, f"{name}={value!r}", "a positive side or (height, width)")
    return sides


def _as_image(image, size=(1, 1)):
    """The image as a tensor; raises a ValueError for another number of axes, or sides known to be below `size`."""
    image = tf.convert_to_tensor(image) if has_tensorflow() else np.asarray(image)
    rank = image.ndim if isinstance(image, np.ndarray) else image.shape.rank
    sides = zip(image.shape[:2], size, strict=True) if rank == 3 else [(0, 1)]
    large = all(have is None or have >= need for have, need in sides)
    require(large, f"an image of shape {image.shape}", f"(height, width, channels) of at least {size[0]} x {size[1]}")
    return image


def _halves(bits):
    """Random int64 as int32, the lower half first."""
    return tf.reshape(tf.bitcast(bits, tf.int32), (-1,)) if has_tensorflow() else bits.view(np.int32)


def _corner(image, size, bits):
    """The upper left corner of a crop, int32 `(2,)`: all places are equally likely."""
    if isinstance(image, np.ndarray):
        return bits % (np.array(image.shape[:2]) - size + 1)
    if None not in image.shape[:2]:
        return tf.cast(tf.math.floormod(bits, np.subtract(image.shape[:2], size, dtype=np.int64) + 1), tf.int32)
    room = tf.cast(tf.shape(image)[:2] - size, tf.int64)
    text = ["Received an image of shape ", tf.shape(image), " and a crop of ", size, ", expected an image not smaller."]
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(room >= 0), text)]):
        return tf.cast(tf.math.floormod(bits, tf.maximum(room, 0) + 1), tf.int32)


def _crop(image, corner, size):
    if isinstance(image, np.ndarray):
        return image[corner[0] : corner[0] + size[0], corner[1] : corner[1] + size[1]]
    crop = tf.slice(image, tf.concat([corner, [0]], 0), tf.concat([size, [-1]], 0))
    static_size = size if isinstance(size, tuple) else (None, None)
    return tf.ensure_shape(crop, (*static_size, image.shape[2]))


def _resized(image, size):
    if isinstance(image, np.ndarray):
        pixels = resized(image, np.array(size), np.zeros(2, int), np.array(size))
        return (np.round(pixels) if image.dtype.kind in "iu" else pixels).astype(image.dtype)
    pixels = tf.image.resize(image, size, antialias=True)
    return tf.saturate_cast(tf.round(pixels) if image.dtype.is_integer else pixels, image.dtype)


def _mirrored(image, bits, mirror):
    """The image, mirrored if it may be and the bits are negative."""
    if isinstance(image, np.ndarray):
        return image[:, ::-1] if mirror and bits < 0 else image
    return tf.cond(bits < 0, lambda: tf.reverse(image, [1]), lambda: image) if mirror else image
