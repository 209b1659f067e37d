"""Exported models, as a server sees them."""

import io
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfdml import datasets, export, losses, models, networks
from tfdml._core.checksums import write_checksums
from tfdml.export.saved_model import CHECKSUMS, load_threshold


@pytest.fixture(scope="module")
def model():
    inputs = keras.Input((32, 32, 1), dtype="uint8")
    model = models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=8, widths=(4, 8)))
    model.compile("adam", loss=losses.MultiSimilarityLoss())
    return model


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (5, 32, 32, 1), dtype="uint8")


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return export.saved_model(model, tmp_path_factory.mktemp("export") / "model")


@pytest.fixture(scope="module")
def served(folder):
    return tf.saved_model.load(str(folder))


def png(image):
    return tf.io.encode_png(image).numpy()


def embed_bytes(served, files):
    return served.signatures["serve_bytes"](images=tf.constant(files))["embedding"].numpy()


def test_both_signatures_give_the_embeddings_of_the_model(model, served, images):
    expected = model.predict(images, verbose=0)
    pixels = served.signatures["serving_default"](images=tf.constant(images))
    assert list(pixels) == ["embedding"]
    np.testing.assert_allclose(pixels["embedding"], expected, atol=1e-5)
    np.testing.assert_allclose(embed_bytes(served, [png(image) for image in images]), expected, atol=1e-5)


def test_the_graph_has_the_merged_kernels_of_lora(images, tmp_path):
    inputs = keras.Input((32, 32, 1), dtype="uint8")
    network = keras.Model(inputs, models.plain_cnn(inputs, dim=8, widths=(4, 8)))
    networks.add_lora(network, 2, alpha=6)
    layer = next(layer for layer in network.layers if hasattr(layer, "lora_kernel_b"))
    layer.lora_kernel_b.assign(np.ones(layer.lora_kernel_b.shape))
    expected = network.predict(images, verbose=0)
    served = tf.saved_model.load(str(export.saved_model(network, tmp_path / "model")))
    found = served.signatures["serving_default"](images=tf.constant(images))["embedding"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    shapes = [tuple(variable.shape) for variable in served.signatures["serving_default"].variables]
    assert tuple(layer.lora_kernel_b.shape) not in shapes
    assert layer.lora_enabled


def test_no_image_one_or_several_are_a_batch(served, images):
    for count in (0, 1, 3):
        pixels = served.signatures["serving_default"](images=tf.constant(images[:count]))["embedding"]
        assert pixels.shape == (count, 8)
        files = tf.constant([png(image) for image in images[:count]], tf.string)
        assert served.signatures["serve_bytes"](images=files)["embedding"].shape == (count, 8)


def saved(image, kind, **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def photo():
    rows, columns = np.mgrid[:40, :48]
    return np.stack([rows * 5, columns * 4, rows + columns], axis=2).astype("uint8")


def with_orientation(image, kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(image, kind, exif=exif)


def files_of_many_kinds(photo):
    rgba = np.concatenate([photo, photo[..., :1]], axis=2)
    return {
        "plain.jpg": saved(photo, "JPEG"),
        "rotated.jpg": with_orientation(photo, "JPEG", 6),
        "mirrored.jpg": with_orientation(photo, "JPEG", 5),
        "progressive.jpg": saved(photo, "JPEG", progressive=True),
        "gray.jpg": saved(photo[..., 0], "JPEG"),
        "alpha.png": saved(rgba, "PNG"),
        "gray.png": saved(photo[:7, :, 0], "PNG"),
        "plain.gif": saved(photo, "GIF"),
        "plain.bmp": saved(photo, "BMP") + b"added by an upload",
        "exact.webp": saved(photo[:, 4:44], "WEBP"),
    }


VIEWS = {
    "crop of a padded image": dict(resize=44, fit="pad", fill=(9, 99, 199)),
    "crop of a stretched image": dict(resize=40),
    "covered": dict(fit="crop"),
}


@pytest.fixture(scope="module")
def color_model():
    """A model whose embedding is its input, so that a difference of one gray level is seen."""
    inputs = keras.Input((32, 32, 3), dtype="uint8")
    flat = keras.layers.Flatten()(keras.layers.Rescaling(1.0)(inputs))
    return models.EmbeddingModel(inputs, flat)


@pytest.mark.slow
@pytest.mark.parametrize("options", VIEWS.values(), ids=VIEWS)
def test_evaluation_embedding_and_serving_see_the_same_pixels(color_model, photo, options, tmp_path):
    view = datasets.Preprocessing(size=32, **options)
    files = files_of_many_kinds(photo)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    paths = np.array([str(tmp_path / name) for name in files])
    part = datasets.LabeledSet(paths=paths, labels=np.arange(len(files)), class_names=tuple(files), load=view)
    loaded = part.examples()
    assert loaded.shape == (len(files), 32, 32, 3)
    embedded = models.embed(color_model, part, batch_size=3)
    folder = export.saved_model(color_model, tmp_path / "model", preprocessing=view, class_names=part.class_names)
    serve = tf.saved_model.load(str(folder)).signatures["serve_bytes"]
    served = serve(images=tf.constant(list(files.values())))["embedding"].numpy()
    np.testing.assert_array_equal(embedded, loaded.reshape(len(files), -1))
    np.testing.assert_array_equal(served, embedded)
    extra = folder / "assets.extra"
    assert datasets.Preprocessing.from_config(json.loads((extra / "preprocessing.json").read_text())) == view
    assert json.loads((extra / "class_names.json").read_text()) == list(files)


@pytest.mark.slow
def test_a_model_of_objects_in_boxes_is_served_with_boxes(color_model, photo, tmp_path):
    view = datasets.Preprocessing(size=32, fit="pad", boxes=True, margin=0.1)
    folder = export.saved_model(color_model, tmp_path / "model", preprocessing=view, on_error="skip")
    serve = tf.saved_model.load(str(folder)).signatures["serve_bytes"]
    boxes = np.array([[3, 4, 30, 20], [-5, 10, 20, 99], [7, 7, 7, 9]], np.float32)
    files = [saved(photo, "JPEG"), with_orientation(photo, "JPEG", 6), saved(photo, "PNG")]
    answer = serve(images=tf.constant(files), boxes=tf.constant(boxes))
    for k in range(2):
        (tmp_path / "file").write_bytes(files[k])
        expected = view((str(tmp_path / "file"), boxes[k])).numpy().reshape(-1)
        np.testing.assert_array_equal(answer["embedding"][k], expected)
    assert answer["error"][0] == b""
    assert answer["error"][2].numpy().startswith(b"the box (7, 7, 7, 9) of an image of 48 x 40 pixels")
    assert not answer["embedding"][2].numpy().any()


@pytest.mark.slow
def test_a_cut_out_is_served_on_the_background_of_its_training(model, photo, tmp_path):
    view = datasets.Preprocessing(size=32, channels=1, background=255)
    folder = export.saved_model(model, tmp_path / "white", preprocessing=view)
    assert export.load(folder).preprocessing == view
    alpha = np.tile(np.arange(48, dtype="uint8")[:, None] * 4, (40, 1, 1))
    file = png(np.concatenate([photo, alpha], axis=2))
    expected = model.predict(view.from_bytes(tf.constant(file))[None], verbose=0)
    np.testing.assert_allclose(embed_bytes(tf.saved_model.load(str(folder)), [file]), expected, atol=1e-5)
    assert np.abs(expected - model.predict(view.from_bytes(tf.constant(png(photo)))[None], verbose=0)).max() > 1e-3


BAD = {
    "half a file": (
        lambda file: file[: len(file) // 2],
        "an image that cannot be decoded, expected a whole file. Copy or send",
    ),
    "all but a byte": (lambda file: file[:-1], "an image that cannot be decoded"),
    "nothing": (lambda file: b"", "0 bytes that are not an image, expected a JPEG, PNG, GIF, BMP or WebP file."),
    "a text": (lambda file: b"hello", "5 bytes that are not an image"),
    "a hole inside": (lambda file: file[:60] + file[90:], "an image that cannot be decoded"),
    "many pixels": (
        lambda file: file[:16] + b"\0\0\x4e\x20" * 2 + file[24:],
        "20000 x 20000 pixels, expected at most 67108864. ",
    ),
    "many bytes": (lambda file: file + bytes(20 * 2**20), " bytes, expected at most 20971520. Send a smaller file."),
}


@pytest.mark.parametrize(("damage", "message"), BAD.values(), ids=BAD)
def test_a_bad_file_is_an_error_of_its_request_and_the_model_keeps_serving(served, images, damage, message):
    good = png(images[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Received at place 1 of the batch.*{message}"):
        embed_bytes(served, [good, damage(good), b"also bad"])
    assert embed_bytes(served, [good]).shape == (1, 8)


@pytest.fixture(scope="module")
def marking(model, tmp_path_factory):
    """The folder of an export that marks bad images, with limits and files of its own."""
    extra = {"best.json": b"{}", "cards/card.md": b"# Card"}
    folder = tmp_path_factory.mktemp("marking") / "model"
    view = datasets.Preprocessing(size=32, channels=1, max_bytes=5000, max_pixels=32 * 32)
    return export.saved_model(model, folder, preprocessing=view, on_error="skip", assets_extra=extra)


@pytest.mark.slow
def test_an_export_may_mark_the_bad_images_and_answer_the_good_ones(marking, served, images, photo):
    assert (marking / "assets.extra" / "best.json").read_bytes() == b"{}"
    assert (marking / "assets.extra" / "cards" / "card.md").read_bytes() == b"# Card"
    serve = tf.saved_model.load(str(marking)).signatures["serve_bytes"]
    good = [png(image) for image in images]
    bad = [damage(good[0]) for damage, _ in BAD.values()] + [saved(photo, "PNG")]
    mixed = [good[0], *bad, *good[1:]]
    answer = {name: value.numpy() for name, value in serve(images=tf.constant(mixed)).items()}
    assert set(answer) == {"embedding", "error"}
    rows = [0, *range(1 + len(bad), len(mixed))]
    np.testing.assert_allclose(answer["embedding"][rows], embed_bytes(served, good), atol=1e-5)
    assert not answer["error"][rows].astype(bool).any()
    assert answer["error"][1 : 1 + len(bad)].astype(bool).all()
    np.testing.assert_array_equal(answer["embedding"][1 : 1 + len(bad)], 0)
    assert answer["error"][len(bad)] == b"48 x 40 pixels, expected at most 1024. Send a smaller image."
    for batch, count in (([], 0), ([b""], 1), (good[:1], 1)):
        answer = serve(images=tf.constant(batch, tf.string))
        assert answer["embedding"].shape == (count, 8)
        assert answer["error"].shape == (count,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preprocessing": 32}, "Received preprocessing=32, expected a tfdml.datasets.Preprocessing or None"),
        (
            {"preprocessing": datasets.Preprocessing(size=(32, 31), channels=1)},
            r"Received preprocessing of shape \(32, 31, 1\), expected the shape of the model's input, \(32, 32, 1\)",
        ),
        ({"preprocessing": datasets.Preprocessing(size=32)}, r"Received preprocessing of shape \(32, 32, 3\)"),
        ({"class_names": "cat"}, "Received class_names='cat', expected one text per class"),
        ({"class_names": [1, 2]}, r"Received class_names=\[1, 2\], expected one text per class"),
        ({"on_error": "mark"}, "Received on_error='mark', expected one of 'error', 'skip'"),
        ({"assets_extra": {"../best.json": b""}}, r"Received '../best.json' in assets_extra, expected relative names"),
        ({"assets_extra": {"/etc/best.json": b""}}, "expected relative names"),
        ({"assets_extra": {"": b""}}, "expected relative names"),
        ({"assets_extra": {"my notes.txt": b""}}, r"of letters, digits, '\.', '_' and '-'"),
        *(
            ({"threshold": threshold}, r"threshold=.*, expected a finite number or None")
            for threshold in (np.nan, np.inf, 10**400, "0.5", True)
        ),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(model, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export.saved_model(model, tmp_path / "model", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_export_replaces_the_one_before_it_and_leaves_nothing_beside(model, marking, tmp_path):
    shutil.copytree(marking, tmp_path / "model")
    export.saved_model(model, tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    extra = sorted(path.name for path in (tmp_path / "model" / "assets.extra").iterdir())
    names = ["fingerprint.json", "preprocessing.json", "tf_serving_warmup_requests", "versions.json"]
    assert extra == ["SHA256SUMS", *names]


def test_an_export_that_fails_leaves_the_one_before_it(model, folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "model")

    def write_half(module, path, **options):
        Path(path).mkdir()
        (Path(path) / "saved_model.pb").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.saved_model, "save", write_half)
    with pytest.raises(KeyboardInterrupt):
        export.saved_model(model, tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert contents(tmp_path / "model") == contents(folder)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_path_that_cannot_be_written_is_said_at_once(model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="expected a place that can be written"):
        export.saved_model(model, tmp_path / "file" / "model")


def test_models_of_another_form_are_refused(tmp_path):
    inputs = keras.Input((None, 32, 1))
    free = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(inputs))
    with pytest.raises(ValueError, match="of fixed size"):
        export.saved_model(free, tmp_path / "free")
    deep = keras.Input((8, 8, 4))
    with pytest.raises(ValueError, match="1 or 3 channels"):
        export.saved_model(keras.Model(deep, keras.layers.GlobalAveragePooling2D()(deep)), tmp_path / "deep")
    vector = keras.Input((7,))
    with pytest.raises(ValueError, match="expected images"):
        export.saved_model(keras.Model(vector, keras.layers.Dense(2)(vector)), tmp_path / "vector")
    with pytest.raises(ValueError, match="not a functional model of one input"):
        export.saved_model(keras.Sequential(), tmp_path / "empty")


def test_damaged_files_beside_a_model_are_errors_that_name_them(folder, tmp_path):
    path = shutil.copytree(folder, tmp_path / "model")
    with pytest.raises(ValueError, match=r"without a number in assets\.extra/threshold\.json"):
        load_threshold(folder)
    for damaged in ('"0.625', "[" * 100_000, "1" + "0" * 400, "NaN", "Infinity", "true", "[0.5]"):
        (path / "assets.extra" / "threshold.json").write_text(damaged)
        with pytest.raises(ValueError, match=r"saved_model\(\.\.\., threshold=\)"):
            load_threshold(path)
    for name, damaged in [("class_names.json", "[1]"), ("preprocessing.json", "[" * 100_000)]:
        (path / "assets.extra" / name).write_text(damaged)
        write_checksums(path, CHECKSUMS)
        with pytest.raises(ValueError, match=f"a SavedModel that cannot be read .*{name}"):
            export.load(path)
