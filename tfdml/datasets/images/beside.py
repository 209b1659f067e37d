"""Two values of an image from one decoding: what the set loads, and a value of the pixels before they are resized."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tfdml._core.optional import tf
from tfdml.datasets.images.preprocessing import Preprocessing


class Beside:
    """The `load` of a set whose examples are pairs, of what `load` returns and `value(pixels)`.

    `pixels` are uint8 `(any, any, 3)`, cut to the box; without a `Preprocessing`, they are the example itself.
    `__self__` leads to the settings of `load`.
    """

    def __init__(self, load: Any, value: Callable[[Any], Any]) -> None:
        self.__self__, self.boxes, self._value = load, getattr(load, "boxes", False), value

    def __call__(self, example: Any) -> tuple[Any, Any]:
        """The example and the value of its pixels."""
        load = self.__self__
        if isinstance(load, Preprocessing):
            read, resize = read_and_resize(load)
            pixels = tf.ensure_shape(read(example), (None, None, 3))
            return resize(pixels), self._value(pixels)
        example = example if load is None else load(example)
        return example, self._value(example)


@functools.lru_cache(maxsize=4)
def read_and_resize(load: Preprocessing) -> tuple[Callable[[Any], "tf.Tensor"], Preprocessing]:
    """A function that reads an image in color, cut to its box, and one that gives it its size."""
    original = tf.function(replace(load, channels=3).original, reduce_retracing=True)
    return original, replace(load, boxes=False, margin=0.0)
