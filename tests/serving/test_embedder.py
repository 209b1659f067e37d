"""Reading and embedding with the decoder of exported models."""

import dataclasses
import io
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.serving import Limits
from tfdml.serving.embedder import Embedder, heat_pictures
from tfdml.serving.queries import FileQuery

VIEW = Preprocessing(size=(4, 3), max_pixels=9_000)
IMAGE = np.random.default_rng(0).integers(0, 256, (30, 20, 3), np.uint8)

pytestmark = pytest.mark.slow


class Means:
    """The mean of each channel; NaN for white images. Keeps the sizes of its batches."""

    def __init__(self):
        self.sizes = []

    def predict_on_batch(self, pixels):
        self.sizes.append(len(pixels))
        means = pixels.mean((1, 2), dtype="float32")
        return np.where(means == 255, np.nan, means)


def embedded(embedder, images):
    """The results of files and pixels in one batch, or the reasons of files that have none."""
    files = [FileQuery(image) if isinstance(image, bytes) else image for image in images]
    read = [(each, "") if isinstance(each, np.ndarray) else embedder.read(each) for each in files]
    results = iter(embedder([pixels for pixels, problem in read if not problem]))
    return [problem or next(results) for _, problem in read]


def encoded(image, kind="png", **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def embedder():
    model = Means()
    embedder = Embedder(model, VIEW, Limits(max_bytes=10_000))
    embedder.model = model
    return embedder


def test_files_and_pixels_are_embedded_in_one_batch_and_bad_files_have_reasons(embedder):
    whole, pixels = encoded(IMAGE), np.full((4, 3, 3), (1, 2, 3), np.uint8)
    white, large = np.full((4, 3, 3), 255, np.uint8), encoded(np.zeros((100, 100, 3), np.uint8))
    found = embedded(embedder, [b"text", whole, pixels, whole[:-30], white, large, bytes(10_001)])
    np.testing.assert_allclose(found[1]["embedding"], VIEW.from_bytes(whole).numpy().mean((0, 1)), atol=1e-4)
    np.testing.assert_array_equal(found[2]["embedding"], [1, 2, 3])
    assert embedder.model.sizes[-1] == 3
    reasons = ["not an image", "cannot be decoded", "not finite", "at most 9000", "at most 10000"]
    for place, reason in zip((0, 3, 4, 5, 6), reasons, strict=True):
        assert reason in found[place]


@pytest.mark.parametrize("view", [VIEW, Preprocessing(size=8, resize=(9, 10), fit="crop", boxes=True, margin=0.15)])
def test_a_box_of_a_query_has_the_pixels_of_a_set_with_this_box_to_the_bit(view, tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "photo.png"
    path.write_bytes(encoded(IMAGE))
    boxes = np.sort(rng.uniform((0, 0), (20, 30), (100, 2, 2)), axis=1).reshape(100, 4)
    data = LabeledSet(
        paths=np.array([str(path)] * 100), labels=np.zeros(100, int), class_names=("",), boxes=boxes, load=boxed(view)
    )
    read = Embedder(Means(), view, Limits()).read
    content = path.read_bytes()
    pixels, problems = zip(*(read(FileQuery(content, tuple(box))) for box in boxes), strict=True)
    assert set(problems) == {""}
    np.testing.assert_array_equal(pixels, data.examples())
    np.testing.assert_array_equal(read(FileQuery(content))[0], read(FileQuery(content, (0, 0, 20, 30)))[0])


def boxed(view):
    return dataclasses.replace(view, boxes=True)


OUTSIDE = [(25, 3, 29, 9), (3, 3, 22, 9), (-2, 3, 9, 9), (0, 0, 1e308, 9)]
BAD_BOXES = [(3, 3, 3, 9), (9, 3, 3, 9), (0.1, 0.2, 0.5, 1), *OUTSIDE]


@pytest.mark.parametrize("box", BAD_BOXES)
def test_a_bad_box_has_a_reason_and_touches_no_other_image(embedder, box):
    whole = encoded(IMAGE)
    good, bad, same = embedded(embedder, [whole, FileQuery(whole, box), FileQuery(whole, (0, 0, 20.9, 30))])
    np.testing.assert_array_equal(good["embedding"], same["embedding"])
    assert bad.startswith(f"the box ({box[0]:g}, ")
    assert "of an image of 20 x 30 pixels, expected left < right and upper < lower inside the image, in pixels" in bad


def test_the_picture_of_a_box_has_a_frame_in_the_darker_image(embedder, tmp_path):
    (tmp_path / "photo").write_bytes(encoded(IMAGE))
    _, content = embedder.picture(str(tmp_path / "photo"), 32, (3.0, 5.0, 13.0, 20.0))
    expected = IMAGE // 2
    expected[5:20, 3:13] = 255
    expected[7:18, 5:11] = IMAGE[7:18, 5:11]
    np.testing.assert_array_equal(tf.io.decode_png(content), expected)
    _, content = embedder.picture(str(tmp_path / "photo"), 15, (0.0, 0.0, 20.0, 15.0))
    assert tf.io.decode_jpeg(content).shape == (15, 10, 3)


def test_the_smaller_limit_counts(embedder):
    assert (embedder.preprocessing.max_bytes, embedder.preprocessing.max_pixels) == (10_000, 9_000)
    assert (embedder.shape, embedder.dim) == ((4, 3, 3), 3)


def test_pictures_are_small_and_upright(embedder, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    for name, image, options in (("small", IMAGE, {}), ("large", np.repeat(IMAGE, 3, axis=0), {"exif": exif})):
        (tmp_path / name).write_bytes(encoded(image, **options))
    kind, content = embedder.picture(str(tmp_path / "small"), 32)
    assert kind == "image/png"
    np.testing.assert_array_equal(tf.io.decode_png(content), IMAGE)
    kind, content = embedder.picture(str(tmp_path / "large"), 45)
    picture = Image.open(io.BytesIO(content))
    assert (kind, picture.format, picture.size) == ("image/jpeg", "JPEG", (45, 10))
    with pytest.raises(ValueError, match="gone: no such file"):
        embedder.picture(str(tmp_path / "gone"), 32)


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [(np.zeros((1, 2, 2)), r"outputs of shape \(2, 2\), expected embeddings"), (np.full((1, 2), np.nan), "not finite")],
)
def test_a_model_without_embeddings_of_whole_images_is_an_error(outputs, reason):
    with pytest.raises(ValueError, match=reason):
        Embedder(SimpleNamespace(predict_on_batch=lambda pixels: outputs), VIEW, Limits())


def test_shares_above_the_mean_of_an_image_are_red_and_those_below_it_blue():
    images, whole = [np.full((1, 3, 1), 100, np.uint8)] * 2, (slice(None), slice(None))
    inner = (slice(None), slice(1, 3))
    first, second = heat_pictures(images, [[[0.9, 0.7, 0.65]], [[9, 0.3, 0.1]]], [whole, inner])
    red, blue = [169, 55, 57], [66, 88, 173]  # 0.4 * 100 + 0.6 * 215 = 169
    np.testing.assert_array_equal(tf.io.decode_png(first).numpy()[0, 0], red)  # 0.15 above the mean, the farthest
    np.testing.assert_array_equal(tf.io.decode_png(first).numpy()[0, 2], [78, 92, 149])  # two thirds of it below
    np.testing.assert_array_equal(tf.io.decode_png(second), [[red, blue]])  # what is outside has no part
    flat = heat_pictures(images[:1], [np.full((1, 1), 0.3)], [whole])[0]
    np.testing.assert_array_equal(tf.io.decode_png(flat), np.full((1, 3, 3), 100))


@pytest.mark.parametrize(
    ("fit", "side", "expected"), [("pad", (20, 40), (5, 10)), ("pad", (30, 10), (10, 3)), ("crop", (20, 40), (10, 10))]
)
def test_the_window_of_an_image_leaves_its_bars_out(fit, side, expected):
    embedder = Embedder(Means(), Preprocessing(size=10, fit=fit, fill=7), Limits())
    file = FileQuery(encoded(np.full((*side, 3), 7, np.uint8)))  # of the color of the bars
    pixels, _ = embedder.read(file)
    assert pixels[embedder.window(file)].shape[:2] == expected
    boxed = FileQuery(encoded(IMAGE), (2, 3, 12, 8))
    assert embedder.read(boxed)[0][embedder.window(boxed)].shape[:2] == ((5, 10) if fit == "pad" else (10, 10))
