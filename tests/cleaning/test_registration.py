"""Registration of images by their pixels, against scikit-image and copies whose scale and place are known."""

import numpy as np
import pytest
from PIL import Image
from skimage.feature import match_template

from tfdml import cleaning
from tfdml.cleaning.pixel_checks import candidates
from tfdml.cleaning.registration import Searched, Templates, agreement, gray_thumbnail, register


def scene(seed, side=128):
    """A color image of random shapes on several scales."""
    rng = np.random.default_rng(seed)
    image = sum(np.kron(rng.normal(size=(side // k, side // k)), np.ones((k, k))) * k**0.5 for k in (4, 8, 16, 32))
    return np.repeat(np.uint8(np.clip(128 + 8 * image, 0, 255))[..., None], 3, axis=2)


def score(a, b):
    return register(a, b).score


def correlation(image, template):
    """Of the template with each window that it fits into."""
    searched, templates = Searched(image), Templates([template], image.shape)
    values = searched.correlations(templates, searched.windows(templates.sides))[0]
    rows, columns = (side - length + 1 for side, length in zip(image.shape, template.shape, strict=True))
    assert (values[rows:] == -np.inf).all()
    assert (values[:, columns:] == -np.inf).all()
    return values[:rows, :columns]


def test_the_correlation_is_that_of_scikit_image():
    rng = np.random.default_rng(0)
    image, template = rng.normal(size=(20, 17)), rng.normal(size=(6, 9))
    np.testing.assert_allclose(correlation(image, template), match_template(image, template), atol=1e-6)
    np.testing.assert_allclose(correlation(image, image[3:9, 2:11])[3, 2], 1, atol=1e-6)


def test_images_without_contrast_have_no_correlation_and_no_score():
    even = np.full((16, 16), 7.0)
    assert (correlation(even, np.eye(4)) == 0).all()
    assert (correlation(np.eye(16), even[:4, :4]) == 0).all()
    assert agreement(even, np.eye(16)) == 0
    assert score(np.full((32, 32, 3), 9, np.uint8), scene(0)) == 0


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("top", "left", "height", "width"), [(10, 30, 90, 96), (0, 0, 102, 100), (38, 20, 90, 108)])
def test_a_crop_is_found_within_a_pixel_of_its_thumbnail(is_first, top, left, height, width):
    image = scene(1)
    crop = image[top : top + height, left : left + width]
    pair = (crop, image) if is_first else (image, crop)
    result = register(*pair)
    assert result.swapped == is_first
    assert result.score > 0.9
    actual = np.array([result.top, result.left, result.top + result.height, result.left + result.width])
    np.testing.assert_allclose(64 * actual, np.array([top, left, top + height, left + width]) / 2, atol=1.01)


@pytest.mark.parametrize("name", cleaning.COPIES)
def test_copies_agree_and_other_images_do_not(name):
    images = [scene(seed) for seed in range(6)]
    copies = [cleaning.COPIES[name](image, np.random.default_rng(0)) for image in images]
    assert min(score(copy, image) for copy, image in zip(copies, images, strict=True)) > 0.8
    assert max(score(copies[i], images[i - 1]) for i in range(6)) < 0.6


def test_shading_alone_is_no_agreement():
    rng = np.random.default_rng(0)
    shaded = [np.linspace(0, 200, 64)[:, None] + rng.normal(0, 8, (64, 64)) for _ in range(2)]
    a, b = (np.repeat(np.clip(image, 0, 255)[..., None], 3, axis=2) for image in shaded)
    assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.9
    assert score(a, b) < 0.3


def test_a_covered_block_does_not_decide():
    window = np.random.default_rng(0).normal(size=(32, 32))
    covered = window.copy()
    covered[:8, :24] = np.random.default_rng(1).normal(size=(8, 24))
    assert agreement(window, covered) == pytest.approx(1)


def test_a_bright_dot_in_one_block_does_not_decide():
    dot = np.zeros((40, 40))
    dot[3:5, 3:5] = 100
    window, other = (dot + np.random.default_rng(seed).normal(size=dot.shape) for seed in (0, 1))
    assert np.corrcoef(window.ravel(), other.ravel())[0, 1] > 0.9
    assert abs(agreement(window, other)) < 0.3


def test_blocks_without_details_do_not_vote():
    window = np.zeros((40, 40))
    window[:16, :16] = np.random.default_rng(0).normal(size=(16, 16))
    faint = window + 0.1 * np.random.default_rng(1).normal(size=window.shape)
    assert agreement(window, faint) > 0.9


def sky(seed, side=128):
    """Noise and ten dots on black, of which a few are bright."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side]
    image = rng.normal(0, 3, (side, side))
    for top, left in rng.uniform(10, side - 10, (10, 2)):
        image += (20 + 40 * rng.pareto(1)) * np.exp(-((rows - top) ** 2 + (columns - left) ** 2) / 18)
    return np.repeat(np.uint8(np.clip(image, 0, 255))[..., None], 3, axis=2)


def test_a_few_bright_dots_on_black_agree_in_a_copy_only():
    images = [sky(seed) for seed in range(6)]
    assert max(score(images[i], images[i - 1]) for i in range(6)) < 0.6
    assert min(score(image[12:116, 20:124], image) for image in images) > 0.75


def test_candidates_are_the_similar_neighbors_by_hand():
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0]], np.float32)
    rows = np.arange(4)
    assert candidates(vectors, 0.5, rows, rows).tolist() == [[0, 1], [1, 2]]
    assert candidates(vectors, 0.5, rows[2:], rows[:2]).tolist() == [[1, 2]]


@pytest.mark.parametrize("shape", [(200, 150, 3), (40, 300, 1), (90, 70, 4)])
def test_a_thumbnail_is_the_gray_image_that_pillow_reduces(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    gray = pixels[..., 0] if shape[2] == 1 else pixels[..., :3] @ np.array([0.299, 0.587, 0.114])
    expected = np.asarray(Image.fromarray(np.float32(gray)).resize((64, 64), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(gray_thumbnail(pixels), expected, atol=1e-3)
