"""Random crops: their laws, against loops and frequencies."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tfdml._core import philox
from tfdml.datasets import RandomCrop, RandomResizedCrop, compose, rotated_classes
from tfdml.datasets.images import augmentation

SEEDS = tf.random.stateless_uniform((4000, 2), (1, 2), None, None, tf.int64)


def numbered(height, width):
    """An image whose channels are the row and the column of each pixel."""
    return np.stack(np.mgrid[:height, :width], axis=2).astype("int32")


def applied(augment, image, seeds=SEEDS):
    """Results for many seeds, `(seeds, height, width, channels)`."""
    return np.stack(
        list(tf.data.Dataset.from_tensor_slices(seeds).map(lambda s: augment(image, s)).as_numpy_iterator())
    )


def chi_square(counts):
    expected = counts.sum() / counts.size
    return ((counts - expected) ** 2 / expected).sum() / (counts.size - 1)


def test_all_places_and_both_mirror_images_are_equally_likely():
    crops = applied(RandomCrop((3, 4)), numbered(5, 9))
    mirrored = crops[:, 0, 0, 1] > crops[:, 0, 3, 1]
    counts = np.zeros((3, 6, 2))
    np.add.at(counts, (crops[:, 0, 0, 0], crops[..., 1].min(axis=(1, 2)), mirrored.astype(int)), 1)
    assert counts.min() > 0
    assert chi_square(counts) < 1.7  # 99.5% quantile of 35 degrees of freedom: 60.3 / 35
    for crop in crops[:50]:
        row, column = crop[..., 0].min(), crop[..., 1].min()
        part = numbered(5, 9)[row : row + 3, column : column + 4]
        assert any(np.array_equal(crop, side) for side in (part, part[:, ::-1]))


def test_without_mirror_every_crop_is_a_part_of_the_image():
    crops = applied(RandomCrop(4, mirror=False), numbered(4, 6), SEEDS[:100])
    assert (np.diff(crops[..., 1], axis=2) == 1).all()
    assert set(crops[:, 0, 0, 1]) == {0, 1, 2}


def place_by_loops(height, width, area, aspect, units, bits):
    """The crop that torchvision's loop takes, from the random numbers that it would draw."""
    for k in range(10):
        target = height * width * (area[0] + units[k] * (area[1] - area[0]))
        low, high = math.log(aspect[0]), math.log(aspect[1])
        ratio = math.exp(low + units[10 + k] * (high - low))
        w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(bits[0]) % (height - h + 1), int(bits[1]) % (width - w + 1), h, w
    h, w = height, width
    if width / height < aspect[0]:
        h = round(width / aspect[0])
    elif width / height > aspect[1]:
        w = round(height * aspect[1])
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize(
    ("height", "width", "options"),
    [
        (40, 60, {}),
        (12, 90, {}),
        (90, 8, {}),
        (30, 30, {"area": (1.0, 1.0), "aspect": (2.0, 2.0)}),
        (20, 50, {"area": (0.5, 0.9), "aspect": (1.0, 1.0)}),
        (50, 20, {"area": (1.0, 1.0), "aspect": (0.9, 3.0)}),
    ],
)
def test_a_resized_crop_is_that_of_the_loop(height, width, options):
    crop = RandomResizedCrop(7, mirror=False, **options)
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    for seed in SEEDS[:25]:
        bits = tf.random.stateless_uniform((23,), seed, None, None, tf.int64, alg="philox").numpy()
        units = bits[:20] * 2.0**-64 + 0.5
        top, left, h, w = place_by_loops(height, width, crop.area, crop.aspect, units, bits[20:22])
        part = image[top : top + h, left : left + w]
        expected = np.round(tf.image.resize(part, (7, 7), antialias=True).numpy())
        np.testing.assert_array_equal(crop(image, seed), expected)


def test_a_resized_crop_is_mirrored_in_half_of_the_cases():
    image = np.tile(np.arange(40, dtype=np.float32)[None, :, None], (30, 1, 1))
    crops = applied(RandomResizedCrop((5, 6)), image, SEEDS[:1000])
    assert crops.dtype == np.float32
    mirrored = crops[:, 0, 0, 0] > crops[:, 0, -1, 0]
    assert abs(mirrored.mean() - 0.5) < 0.06


@pytest.mark.parametrize("augment", [RandomCrop((6, 5)), RandomResizedCrop((6, 5))])
def test_the_same_seed_gives_the_same_crop_of_a_known_shape(augment):
    image = np.random.default_rng(1).integers(0, 256, (20, 30, 3), np.uint8)
    data = tf.data.Dataset.from_tensors((image, SEEDS[0])).map(augment)
    assert data.element_spec == tf.TensorSpec((6, 5, 3), tf.uint8)
    np.testing.assert_array_equal(next(iter(data)), augment(image, SEEDS[0]))
    assert len({augment(image, seed).numpy().tobytes() for seed in SEEDS[:20]}) == 20
    np.testing.assert_array_equal(augment(image, [3, 4]), augment(image, np.array([3, 4], np.int32)))


def test_crops_can_be_chained():
    image = np.random.default_rng(1).integers(0, 256, (20, 30, 3), np.uint8)
    found = compose(RandomCrop(12, mirror=False), RandomResizedCrop(6))(image, SEEDS[0])
    first, second = (tf.random.fold_in(SEEDS[0], tf.constant(k, tf.int64)) for k in range(2))
    np.testing.assert_array_equal(found, RandomResizedCrop(6)(RandomCrop(12, mirror=False)(image, first), second))


def turned(image, seed):
    return rotated_classes(np.stack([image[:16, :16], image[4:20, 4:20]] * 6), seed, examples_per_class=2)


@pytest.mark.parametrize(
    "augment",
    [
        RandomCrop((6, 5)),
        RandomResizedCrop(7),
        RandomResizedCrop((9, 5), area=(1.0, 1.0), aspect=(3.0, 3.0), mirror=False),
        compose(RandomCrop(20, mirror=False), RandomResizedCrop(20, area=(0.5, 1.0))),
        turned,
    ],
    ids=["crop", "resized crop", "none that fits", "composed", "turned classes"],
)
def test_without_tensorflow_they_give_the_same_pixels(augment, monkeypatch):
    draw = np.random.default_rng(1)
    for image in (draw.integers(0, 256, (24, 30, 3), np.uint8), draw.normal(size=(40, 30, 2)).astype("float32")):
        expected = [np.asarray(augment(image, seed)) for seed in SEEDS[:60]]
        with monkeypatch.context() as hidden:
            for module in (augmentation, philox):
                hidden.setattr(module, "has_tensorflow", lambda: False)
            found = [augment(image, seed) for seed in SEEDS[:60].numpy()]
        assert {type(one) for one in found} == {np.ndarray}
        assert found[0].dtype == image.dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=0 if image.dtype == np.uint8 else 1e-6)


def test_an_image_smaller_than_the_crop_is_an_error():
    with pytest.raises(ValueError, match=r"Received an image of shape \(4, 9, 3\), expected .* of at least 5 x 5"):
        RandomCrop(5)(np.zeros((4, 9, 3), np.uint8), (0, 0))
    unknown = tf.function(RandomCrop(5), input_signature=[tf.TensorSpec((None, None, 3)), tf.TensorSpec(2, tf.int64)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected an image not smaller"):
        unknown(np.zeros((4, 9, 3), np.float32), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match=r"Received an image of shape \(4, 9\)"):
        RandomResizedCrop(5)(np.zeros((4, 9), np.uint8), (0, 0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomCrop(0), "Received size=0, expected a positive side"),
        (lambda: RandomResizedCrop((1, 2, 3)), r"Received size=\(1, 2, 3\)"),
        (lambda: RandomResizedCrop(8, area=(0.0, 1.0)), r"Received area=\(0.0, 1.0\), expected 0 < smallest"),
        (lambda: RandomResizedCrop(8, area=(0.5, 1.5)), r"Received area=\(0.5, 1.5\)"),
        (lambda: RandomResizedCrop(8, aspect=(2.0, 1.0)), r"Received aspect=\(2.0, 1.0\)"),
    ],
)
def test_wrong_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_all_examples_of_a_class_are_turned_alike_and_all_eight_orientations_occur():
    image = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    eight = [np.rot90(one, turns) for one in (image, image[:, ::-1]) for turns in range(4)]
    batch = np.broadcast_to(image, (100, 4, 4, 3))
    turned = rotated_classes(tf.constant(batch), (3, 5), examples_per_class=2).numpy()
    np.testing.assert_array_equal(turned[::2], turned[1::2])
    counts = [sum(np.array_equal(one, view) for view in turned[::2]) for one in eight]
    assert sum(counts) == 50
    assert min(counts) > 0


@pytest.mark.parametrize("shape", [(6, 4, 5, 3), (5, 4, 4, 3), (4, 4, 3)])
def test_only_square_images_of_whole_classes_are_turned(shape):
    with pytest.raises(ValueError, match=r"expected \(batch, side, side, channels\) with a multiple of 2 rows"):
        rotated_classes(np.zeros(shape, np.uint8), (0, 0), examples_per_class=2)
