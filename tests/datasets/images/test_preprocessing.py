"""Preprocessing of images, against `tf.image.resize` of whole images and slices of NumPy."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tfdml.datasets import Preprocessing
from tfdml.datasets.images import preprocessing

RNG = np.random.default_rng(0)
WIDE = np.array(Image.fromarray(RNG.integers(0, 256, (6, 9, 3), np.uint8)).resize((57, 38)))
TALL = WIDE.swapaxes(0, 1)


@pytest.fixture(params=["TensorFlow", "Pillow"], autouse=True)
def _form(request, monkeypatch):
    """Both forms: with TensorFlow, and as if it was not installed."""
    monkeypatch.setattr(preprocessing, "has_tensorflow", lambda: request.param == "TensorFlow")


def resized(image, height, width):
    return np.round(tf.image.resize(image, (height, width), antialias=True).numpy()).astype("uint8")


def center(image, height, width):
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return image[top : top + height, left : left + width]


def padded(image, side, color):
    canvas = np.full((side, side, 3), color, np.uint8)
    top, left = (side - image.shape[0]) // 2, (side - image.shape[1]) // 2
    canvas[top : top + image.shape[0], left : left + image.shape[1]] = image
    return canvas


@pytest.mark.parametrize("image", [WIDE, TALL], ids=["wide", "tall"])
@pytest.mark.parametrize("side", [24, 57, 80])
def test_each_fit_gives_the_image_resized_as_a_whole(image, side):
    height, width = image.shape[:2]
    long, short = side / max(height, width), side / min(height, width)
    np.testing.assert_array_equal(Preprocessing(size=side)(image), resized(image, side, side))
    inside = resized(image, round(height * long), round(width * long))
    view = Preprocessing(size=side, fit="pad", fill=(9, 90, 190))
    np.testing.assert_array_equal(view(image), padded(inside, side, (9, 90, 190)))
    covering = resized(image, round(height * short), round(width * short))
    near(Preprocessing(size=side, fit="crop")(image), center(covering, side, side))


def near(found, expected):
    """Equal, but for rounding where only a part of an image is resized."""
    np.testing.assert_allclose(np.asarray(found).astype(int), expected.astype(int), atol=1)
    assert (np.asarray(found) != expected).mean() < 0.01


@pytest.mark.parametrize("image", [WIDE, TALL], ids=["wide", "tall"])
@pytest.mark.parametrize("fit", ["stretch", "pad", "crop"])
@pytest.mark.parametrize(("resize", "size"), [(32, 28), (57, 50), (64, (20, 61)), ((40, 64), (33, 64)), (33, 32)])
def test_the_center_crop_is_that_of_the_uncropped_image(image, fit, resize, size):
    view = Preprocessing(size=size, resize=resize, fit=fit, fill=7)
    whole = np.asarray(view.uncropped(image))
    assert whole.shape[:2] == (resize if isinstance(resize, tuple) else (resize, resize))
    assert view.shape == (*(size if isinstance(size, tuple) else (size, size)), 3)
    near(view(image), center(whole, *view.shape[:2]))


def test_an_image_of_the_right_size_is_not_touched():
    for fit in ("stretch", "pad", "crop"):
        np.testing.assert_array_equal(Preprocessing(size=(38, 57), fit=fit)(WIDE), WIDE)
    np.testing.assert_array_equal(Preprocessing(size=28, resize=(38, 57))(WIDE), center(WIDE, 28, 28))


def test_a_line_of_one_pixel_stays_visible_and_centered():
    line = np.full((1, 400, 3), 200, np.uint8)
    found = np.asarray(Preprocessing(size=20, fit="pad")(line))
    assert (found[9] == 200).all()
    assert found.sum() == 200 * 20 * 3
    near(Preprocessing(size=3, fit="crop")(line), np.full((3, 3, 3), 200))


BOXES = {
    "inside": ((10, 5, 30, 25), np.s_[5:25, 10:30]),
    "fractions of pixels": ((10.5, 5.2, 29.1, 24.9), np.s_[5:25, 10:30]),
    "past every edge": ((-4, -9.5, 90, 1e9), np.s_[:, :]),
    "one pixel": ((56.5, 37.9, 56.6, 38), np.s_[37:38, 56:57]),
}


@pytest.mark.parametrize(("box", "part"), BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("kind", [np.float32, np.float64, list])
def test_an_image_is_cut_to_the_part_of_its_box_that_lies_inside(box, part, kind):
    box = list(map(float, box)) if kind is list else np.array(box, kind)
    view = Preprocessing(size=16, boxes=True)
    np.testing.assert_array_equal(view((WIDE, box)), resized(WIDE[part], 16, 16))
    np.testing.assert_array_equal(view.original((WIDE, box)), WIDE[part])


def test_a_margin_is_a_share_of_the_sides_of_the_box():
    view = Preprocessing(size=16, boxes=True, margin=0.25)
    np.testing.assert_array_equal(view.original((WIDE, [10, 8, 30, 24])), WIDE[4:28, 5:35])
    np.testing.assert_array_equal(view.original((WIDE, [40, 20, 60, 36])), WIDE[16:38, 35:57])


@pytest.mark.parametrize(
    "box", [(5, 5, 5, 9), (9, 5, 5, 9), (5, 9, 9, 5), (60, 0, 70, 9), (0, -9, 9, 0), (0, 0, np.nan, 9)]
)
def test_an_empty_box_is_an_error_that_names_it(box, tmp_path):
    view = Preprocessing(size=8, boxes=True, margin=1.0)
    message = r"the box \(.*\) of an image of 57 x 38 pixels, expected left < right and upper < lower inside"
    path = str(tmp_path / "a.png")
    Image.fromarray(WIDE).save(path)
    for example, source in ((WIDE, ""), (path, f"{path}: ")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"Received {source}{message}"):
            view((example, box))


def test_a_path_is_read_upright_before_it_is_cut(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = str(tmp_path / "photo.png")
    Image.fromarray(WIDE).save(path, exif=exif)
    upright = np.array(ImageOps.exif_transpose(Image.open(path)))
    assert upright.shape == (57, 38, 3)
    np.testing.assert_array_equal(Preprocessing(size=20)(path), resized(upright, 20, 20))
    np.testing.assert_array_equal(Preprocessing(size=20).original(path), upright)
    boxed = Preprocessing(size=8, boxes=True)((path, [0, 40, 38, 57]))
    np.testing.assert_array_equal(boxed, resized(upright[40:], 8, 8))
    content = Path(path).read_bytes()
    np.testing.assert_array_equal(Preprocessing(size=20).from_bytes(content), resized(upright, 20, 20))


def test_pixels_of_one_three_and_four_channels_are_images():
    gray = WIDE[..., :1]
    np.testing.assert_array_equal(Preprocessing(size=12)(gray)[..., 2], Preprocessing(size=12)(WIDE)[..., 0])
    with_alpha = np.concatenate([WIDE, gray], axis=2)
    np.testing.assert_array_equal(Preprocessing(size=12)(with_alpha), Preprocessing(size=12)(WIDE))
    np.testing.assert_array_equal(Preprocessing(size=(38, 57), channels=1)(gray), gray)


def test_gray_is_the_luma_of_the_result():
    weights = np.array([0.299, 0.587, 0.114])
    expected = np.round(resized_float(WIDE, 12, 12) @ weights)[..., None]
    near(Preprocessing(size=12, channels=1)(WIDE), expected)
    padding = np.asarray(Preprocessing(size=12, fit="pad", fill=(200, 100, 50), channels=1)(WIDE))
    assert padding[0, 0, 0] == round(200 * 0.299 + 100 * 0.587 + 50 * 0.114)
    assert Preprocessing(size=12, channels=1).original(WIDE).shape == (38, 57, 1)


def test_gray_stays_gray():
    gray = np.arange(256, dtype="uint8").reshape(16, 16, 1)
    np.testing.assert_array_equal(Preprocessing(size=16, channels=1)(gray), gray)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_shrink_as_in_pillow(channels):
    image = Image.fromarray(WIDE)
    found = np.asarray(Preprocessing(size=(19, 28), channels=channels)(WIDE))
    small = image.convert("L" if channels == 1 else "RGB").resize((28, 19), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(found.astype(int), np.array(small).astype(int).reshape(found.shape), atol=2)


def resized_float(image, height, width):
    return tf.image.resize(image, (height, width), antialias=True).numpy()


@pytest.mark.parametrize("boxes", [False, True])
def test_the_shape_is_known_in_a_graph(boxes, monkeypatch):
    monkeypatch.setattr(preprocessing, "has_tensorflow", lambda: True)
    data = tf.data.Dataset.from_tensors((WIDE, np.zeros(4)) if boxes else WIDE)
    for fit in ("stretch", "pad", "crop"):
        view = Preprocessing(size=(12, 20), resize=24, fit=fit, channels=1, boxes=boxes)
        found = data.map((lambda *example, view=view: view(example)) if boxes else view)
        assert found.element_spec == tf.TensorSpec((12, 20, 1), tf.uint8)


@pytest.mark.parametrize(
    "image", [WIDE.astype("float32"), WIDE[..., 0], WIDE[..., :2]], ids=["floats", "no channels", "two channels"]
)
def test_other_pixels_are_refused(image):
    with pytest.raises(ValueError, match=r"Received pixels of shape .*, expected uint8 \(height, width, channels\)"):
        Preprocessing(size=8)(image)


def test_a_box_is_given_if_and_only_if_it_is_used():
    with pytest.raises(ValueError, match="Received boxes=True and no box"):
        Preprocessing(size=8, boxes=True).from_bytes(b"")
    with pytest.raises(ValueError, match="Received boxes=False and a box"):
        Preprocessing(size=8).from_bytes(b"", [0, 0, 1, 1])


@pytest.mark.parametrize(
    "view",
    [
        Preprocessing(size=224),
        Preprocessing(size=(20, 30), resize=(40, 50), fit="pad", fill=(1, 2, 3), boxes=True, margin=0.1, channels=1),
        Preprocessing(size=8, background=(1, 2, 3)),
    ],
)
def test_the_settings_survive_json(view):
    assert Preprocessing.from_config(json.loads(json.dumps(view.get_config()))) == view
    assert hash(view) == hash(Preprocessing.from_config(view.get_config()))


def cut_out():
    """The image with an alpha that rises from 0 on the left, and a hidden color where it is 0."""
    alpha = np.tile(np.minimum(np.arange(57) * 10, 255), (38, 1))[..., None].astype("uint8")
    return np.concatenate([np.where(alpha == 0, np.uint8(200), WIDE), alpha], axis=2)


def test_every_way_to_read_a_cut_out_shows_the_background(tmp_path):
    view, path = Preprocessing(size=(38, 57), background=(255, 120, 0)), str(tmp_path / "cut-out.png")
    pixels = cut_out()
    alpha = pixels[..., 3:] / 255
    expected = np.round(pixels[..., :3] * alpha + np.array([255, 120, 0]) * (1 - alpha))
    Image.fromarray(pixels).save(path)
    content = (tmp_path / "cut-out.png").read_bytes()
    for image in (
        view(path),
        view(pixels),
        view.original(path),
        view.from_bytes(content),
        view.reader()(content)[0],
        *batch(view, content),
    ):
        np.testing.assert_array_equal(image, expected)
    np.testing.assert_array_equal(Preprocessing(size=(38, 57))(path), pixels[..., :3])


def test_without_a_background_settings_have_the_form_of_earlier_versions():
    view = Preprocessing(size=8)
    assert repr(view) == (
        "Preprocessing(size=8, resize=None, fit='stretch', fill=0, channels=3, boxes=False, margin=0.0, "
        "max_bytes=20971520, max_pixels=67108864, inverse_dct='accurate')"
    )
    assert view.fingerprint() == "ec0f579f3ff061f7"
    white = Preprocessing(size=8, background=255)
    assert repr(white) == repr(view).replace("'accurate'", "'accurate', background=255")
    assert white.fingerprint() == Preprocessing(size=8, background=(255,) * 3).fingerprint() != view.fingerprint()


def batch(view, content):
    """The images of a batch of one file, which graphs of TensorFlow alone read."""
    return view.batch_from_bytes(tf.constant([content]))[0] if preprocessing.has_tensorflow() else ()


def jpeg(path):
    Image.fromarray(WIDE).save(path, quality=60)
    return str(path), path.read_bytes()


def test_a_jpeg_has_the_pixels_of_pillow_from_a_path_and_from_bytes(tmp_path):
    path, content = jpeg(tmp_path / "wide.jpg")
    expected, view = np.array(Image.open(path)), Preprocessing(size=(38, 57))
    np.testing.assert_array_equal(view(path), expected)
    np.testing.assert_array_equal(view.original(path), expected)
    np.testing.assert_array_equal(view.from_bytes(content), expected)
    for image in (view.reader()(content)[0], *batch(view, content)):
        np.testing.assert_array_equal(image, expected)


def test_threads_that_read_at_once_for_the_first_time_share_one_graph(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    path, content = jpeg(tmp_path / "wide.jpg")
    begin, read = threading.Barrier(8), Preprocessing(size=(38, 57)).reader()
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda _: begin.wait() < 8 and read(content), range(8)))
    for pixels, reason in results:
        np.testing.assert_array_equal(pixels, Image.open(path))
        assert reason == ""
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "Received size=0, expected a positive side"),
        ({"size": (3, -1)}, r"Received size=\(3, -1\)"),
        ({"size": 3.5}, r"Received size=3.5"),
        ({"size": 8, "resize": 7}, "Received resize=7, expected at least size=8"),
        ({"size": 8, "resize": (9, 7)}, r"Received resize=\(9, 7\), expected at least size=8"),
        ({"size": 8, "resize": 0}, "Received resize=0"),
        ({"size": 8, "fit": "zoom"}, "Received fit='zoom', expected 'stretch', 'pad' or 'crop'"),
        ({"size": 8, "fill": 256}, "Received fill=256, expected a gray level"),
        ({"size": 8, "fill": (1, 2)}, r"Received fill=\(1, 2\), expected a gray level"),
        ({"size": 8, "background": -1}, "Received background=-1, expected a gray level"),
        ({"size": 8, "channels": 2}, r"Received channels=2, expected 1 \(gray\) or 3 \(color\)"),
        ({"size": 8, "margin": 0.1}, "Received margin=0.1 and boxes=False"),
        ({"size": 8, "boxes": True, "margin": -0.1}, "Received margin=-0.1, expected a share of 0 or more"),
        ({"size": 8, "max_bytes": 0}, "Received max_bytes=0, expected a whole number of at least 1"),
        ({"size": 8, "inverse_dct": "slow"}, "Received inverse_dct='slow', expected 'accurate' or 'fast'"),
        ({"size": 8, "max_pixels": -1}, "Received max_pixels=-1, expected a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Preprocessing(**options)
