"""Alignment of faces by five points: eyes, nose and corners of the mouth come to the same pixels of every image."""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

import tfdml
from recipes.checks import require, require_whole

Detector = Callable[[np.ndarray], npt.ArrayLike | None]

_SIDE = 112
# x and y of the eye on the left of the image, the eye on its right, the nose, the left and the right corner of the
# mouth, in an image of 112 x 112. Source: Deng, Guo, Xue, Zafeiriou, ArcFace, CVPR 2019, who moved the template of Liu
# et al., SphereFace, CVPR 2017, from 96 x 112 pixels.
_TEMPLATE = (
    (38.2946, 51.6963),
    (73.5318, 51.5014),
    (56.0252, 71.7366),
    (41.5493, 92.3655),
    (70.7299, 92.2041),
)
_CROP = 0.5  # side of the center that is taken without a face, as a fraction of the shorter side of the image
_CENTER_WEIGHT = 2.0  # of the squared distance of a face from the center, beside its area


def face_template(size: int = _SIDE) -> np.ndarray:
    """The five points of an aligned face of `size` pixels, `(5, 2)` x and y; the first pixel has its center at 0."""
    require_whole(1, size=size)
    return np.array(_TEMPLATE) * (size / _SIDE)


def similarity_transform(points: npt.ArrayLike, targets: npt.ArrayLike) -> np.ndarray:
    """The rotation, scale and shift `(..., 2, 3)` that bring points `(..., k, 2)` nearest to targets, by least squares.

    With points as complex numbers z and targets w, both minus their means, the map is z -> c z, without mirroring, with
    c = sum(conj(z) w) / sum(|z|^2); NaN where points are NaN. Source: Umeyama, Least-Squares Estimation of
    Transformation Parameters Between Two Point Patterns, PAMI 1991.
    """
    z, w = (_as_complex(array) for array in (points, targets))
    z_mean, w_mean = z.mean(axis=-1, keepdims=True), w.mean(axis=-1, keepdims=True)
    spread = (np.abs(z - z_mean) ** 2).sum(axis=-1)
    require(not (spread == 0).any(), "points that are all the same", "the points of a face")
    with np.errstate(invalid="ignore"):  # points that are NaN
        c = (np.conj(z - z_mean) * (w - w_mean)).sum(axis=-1) / spread
    shift = (w_mean - c[..., None] * z_mean)[..., 0]
    rows = [[c.real, -c.imag, shift.real], [c.imag, c.real, shift.imag]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def face_points(faces: tfdml.datasets.LabeledSet, *, detector: Detector | None = None) -> np.ndarray:
    """Five points of the face in each image of a set, found by a detector.

    The detector takes a tenth of a second or more per image on one core, so keep its points.

    Example: a detector of your own, which takes the center of an image as all five points, and no face in a dark one.

        >>> images = np.stack([np.full((8, 8, 3), level, "uint8") for level in (0, 200)])
        >>> photos = tfdml.datasets.LabeledSet(images=images, labels=np.array([0, 0]), class_names=("Ann",))
        >>> detector = lambda image: np.full((5, 2), 3.5) if image.mean() > 100 else None
        >>> faces.face_points(photos, detector=detector)[:, 0]
        array([[nan, nan],
               [3.5, 3.5]])

    Args:
        faces: `LabeledSet` of images; each is read at its full size.
        detector: function from an image, uint8 `(height, width, 3)`, to `(5, 2)` x and y of the left and the right eye
            (in the image), the nose, and the left and the right corner of the mouth, or None without a face. By default
            MTCNN; of several faces the one with the largest area minus twice the squared distance from the center.

    Returns:
        `(n, 5, 2)` float64, NaN for images without a face: `align_faces` takes their center.

    Raises:
        tf.errors.InvalidArgumentError: an image that cannot be loaded, which it names.

    Source: Zhang, Zhang, Li, Qiao, Joint Face Detection and Alignment Using Multitask Cascaded Convolutional Networks,
    IEEE Signal Processing Letters 2016 (MTCNN).
    """
    detect = mtcnn_detector() if detector is None else detector
    points = np.full((len(faces), 5, 2), np.nan)
    pixels = dataclasses.replace(faces, load=_Pixels(**_Pixels.options(faces)))
    for row, (images, _) in enumerate(pixels.batches(1)):
        points[row] = _as_points(detect(images[0].numpy()), row)
        print(f"\r{row + 1:,} of {len(faces):,} faces searched", end="", file=sys.stderr, flush=True)
    return points


def mtcnn_detector() -> Detector:
    """MTCNN of the package mtcnn, whose weights are in its wheel, as a detector for `face_points`."""
    from mtcnn import MTCNN  # pip install tfdml[faces]

    network = MTCNN()

    def detect(image: np.ndarray) -> np.ndarray | None:
        # Image, left, upper, width, height, confidence, five x, five y of each face.
        found = np.reshape(network.detect_faces(image, output_type="numpy"), (-1, 16))
        center = found[:, 1:3] + found[:, 3:5] / 2 - np.array(image.shape[1::-1]) / 2
        centrality = found[:, 3] * found[:, 4] - _CENTER_WEIGHT * (center**2).sum(axis=1)
        return found[np.argmax(centrality), 6:].reshape(2, 5).T if len(found) else None

    return detect


def align_faces(
    faces: tfdml.datasets.LabeledSet, points: npt.ArrayLike, *, size: int = 112
) -> tfdml.datasets.LabeledSet:
    """The same faces, each rotated, scaled and shifted so that its five points come to the places of a template.

    An image without points gives its center, half of its shorter side, so that rows, and the pairs of LFW, stay. Images
    are warped and sampled bilinearly when they are loaded; pixels outside an image are black. A face that is much
    larger than `size` is sampled without smoothing, so resize large photographs first. Keep the result by `cached`.

    Example: the left eye, drawn as a white pixel at (30, 20), comes to (38, 52), where the template has it.

        >>> points = np.array([[30, 20], [47.6, 19.9], [38.9, 30], [31.6, 40.3], [46.2, 40.3]])
        >>> photo = np.zeros((1, 64, 80, 3), "uint8")
        >>> photo[0, 20, 30] = 255
        >>> photos = tfdml.datasets.LabeledSet(images=photo, labels=np.array([0]), class_names=("Ann",))
        >>> aligned = faces.align_faces(photos, points[None], size=112).examples()[0, ..., 0]
        >>> aligned.shape, np.argwhere(aligned == aligned.max()).mean(axis=0).tolist()
        ((112, 112), [52.0, 38.0])

    Args:
        faces: `LabeledSet` of n images; records of a source are the contents of image files.
        points: `(n, 5, 2)`, x and y in each full-size image, as `face_points` returns them; NaN for no face.
        size: side of the square result in pixels.

    Returns:
        `LabeledSet` of uint8 `(size, size, 3)` with the labels, names, groups and protocol of `faces`, without boxes.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 5:
    "When alignment fails, we use a center crop."
    """
    array = np.asarray(points, np.float64)
    require(array.shape == (len(faces), 5, 2), f"points of shape {array.shape}", f"({len(faces)}, 5, 2)")
    finite = np.isfinite(array).all(axis=(1, 2))
    is_valid = finite | np.isnan(array).all(axis=(1, 2))
    rows = np.flatnonzero(~is_valid)
    require(bool(is_valid.all()), f"points of row {rows[:1]} that are not finite", "numbers, or NaN for all of a row")
    keys = next(column for column in (faces.paths, faces.images, faces.source) if column is not None)
    return dataclasses.replace(
        faces,
        paths=None,
        images=None,
        boxes=None,
        source=_FacesWithMaps(keys, _maps_to_images(array, face_template(size))),
        load=AlignedFace(size=size, **_Pixels.options(faces)),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Pixels:
    """Reads an image at its full size, uint8 `(any, any, 3)`, from a path, pixels, or the bytes of a file."""

    encoded: bool = False
    channels: int = 3

    @classmethod
    def options(cls, faces: tfdml.datasets.LabeledSet) -> dict[str, Any]:
        """The attributes for the images of a set."""
        images = faces.images
        return {"encoded": faces.source is not None, "channels": 3 if images is None else images.shape[-1]}

    def __call__(self, example: Any) -> tf.Tensor:
        if self.encoded:
            return tf.ensure_shape(tf.io.decode_image(example, channels=3, expand_animations=False), (None, None, 3))
        if example.dtype == tf.uint8:
            example = tf.ensure_shape(example, (None, None, self.channels))
        return tfdml.datasets.Preprocessing(size=1).original(example)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlignedFace(_Pixels):
    """`load` of aligned faces: reads an image and its map, `(4,)`, and warps it; see `align_faces`."""

    size: int

    def __call__(self, example: Any) -> tf.Tensor:
        """One aligned face, uint8 `(size, size, 3)`."""
        key, numbers = example
        image = super().__call__(key)
        center = _center_map(tf.cast(tf.shape(image)[:2], tf.float32), self.size)
        numbers = tf.cast(numbers, tf.float32)
        return _warped(image, tf.where(tf.math.is_finite(numbers), numbers, center), self.size)


@dataclasses.dataclass(frozen=True, eq=False)
class _FacesWithMaps:
    """Images, or what is read to get them, each with the map from the aligned face to its pixels."""

    keys: Any
    maps: np.ndarray

    def __len__(self) -> int:
        return len(self.maps)

    def __getitem__(self, row: int) -> tuple[Any, np.ndarray]:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[tuple[Any, np.ndarray]]:
        get = getattr(self.keys, "__getitems__", lambda rows: [self.keys[row] for row in rows])
        return list(zip(get(list(rows)), self.maps[np.asarray(rows, np.int64)], strict=True))


def _as_complex(points):
    array = np.asarray(points, np.float64)
    require(array.ndim >= 2 and array.shape[-1] == 2, f"points of shape {array.shape}", "(..., points, 2), x and y")
    return array[..., 0] + 1j * array[..., 1]


def _as_points(points, row):
    """The points of a detector, NaN for None."""
    if points is None:
        return np.nan
    array = np.asarray(points, np.float64)
    is_valid = array.shape == (5, 2) and np.isfinite(array).all()
    received = f"points of shape {array.shape} from the detector for row {row}"
    require(is_valid, received, "finite points of shape (5, 2), or None for no face")
    return array


def _maps_to_images(points, template):
    """`(n, 4)`: real and imaginary part of c, and the shift, of the maps from aligned faces to images."""
    matrices = similarity_transform(points, template)
    c, shift = (matrices[:, 0, column] + 1j * matrices[:, 1, column] for column in (0, 2))
    with np.errstate(invalid="ignore"):
        inverse = np.stack([1 / c, -shift / c], axis=1)
    return inverse.view(np.float64).reshape(-1, 4)


def _center_map(sides, size):
    """The map of an aligned face to the center of an image, `(4,)`; `sides` is height and width."""
    scale = _CROP * tf.reduce_min(sides) / size
    shift = (sides[::-1] - 1 - scale * (size - 1)) / 2
    return tf.concat([[scale, 0.0], shift], axis=0)


def _warped(image, numbers, size):
    """Bilinear samples of an image, black outside: pixel z of the result is at c z + shift."""
    real, imaginary, x, y = tf.unstack(numbers)
    rows = tf.stack([real, -imaginary, x, imaginary, real, y, 0.0, 0.0])
    pixels = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(image, tf.float32)[None],
        transforms=rows[None],
        output_shape=(size, size),
        fill_value=0.0,
        interpolation="BILINEAR",
    )
    return tf.ensure_shape(tf.cast(tf.round(pixels[0]), tf.uint8), (size, size, 3))
