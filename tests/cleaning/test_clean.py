"""Cleaning of images with planted copies, leaks, wrong labels and outliers, whose answers are known."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.worlds import Pixels, write_png
from tfdml import cleaning, cli, datasets
from tfdml.cleaning import calibration
from tfdml.cleaning.calibration import _halfway, _least_similarity, _precision
from tfdml.cleaning.clean import _limits, remove_cache
from tfdml.cleaning.pixel_checks import description, split_descriptions
from tfdml.cleaning.registration import gray_thumbnail
from tfdml.cli import commands, inputs
from tfdml.datasets.images.beside import Beside


def scenes(count=40, seed=0, side=24):
    """Smooth color images, each different."""
    coarse = np.random.default_rng(seed).integers(0, 256, (count, 5, 5, 3))
    return np.uint8(tf.image.resize(coarse, (side, side)).numpy())


def labeled(images, labels=None):
    labels = np.zeros(len(images), int) if labels is None else np.asarray(labels)
    return datasets.LabeledSet(images=images, labels=labels, class_names=tuple("abcd"))


def calibrated(images, **options):
    scores = cleaning.score_copies(Pixels(), labeled(images), Pixels().predict_on_batch(images), **options)
    return scores.calibrated(0.99)


@pytest.mark.parametrize("name", cleaning.COPIES)
def test_a_copy_is_like_its_image_and_depends_on_the_seed_only(name):
    image = scenes(1)[0]
    copy, again, other = (cleaning.COPIES[name](image, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert copy.dtype == np.uint8
    np.testing.assert_array_equal(copy, again)
    assert copy.shape != other.shape or (copy != other).any()
    assert abs(copy.mean() - image.mean()) < 25
    if name == "crop":
        windows = np.lib.stride_tricks.sliding_window_view(image, copy.shape)
        assert (windows == copy).all(axis=(3, 4, 5)).any()
        assert all(0.65 < a / b < 1 for a, b in zip(copy.shape[:2], image.shape[:2], strict=True))


@pytest.mark.parametrize(
    ("right", "wrong", "precision", "expected"),
    [
        ([0.9, 0.8, 0.7], [0.1], 1.0, 0.7),
        ([0.9, 0.8, 0.7], [0.75], 1.0, 0.8),
        ([0.9, 0.8, 0.7], [0.75], 0.75, 0.7),
        ([0.9, 0.5], [0.9], 0.6, 0.5),
        ([0.9], [0.9], 1.0, np.nextafter(1, 2)),
    ],
)
def test_the_least_similarity_of_a_precision_by_hand(right, wrong, precision, expected):
    assert _least_similarity(np.array(right), np.array(wrong), precision) == pytest.approx(expected)


def test_a_score_is_halfway_between_the_highest_refused_one_and_that_of_most_copies_by_hand():
    right = np.full(100, 0.9)
    assert _halfway(right, np.array([0.1, 0.5]), 0.9) == pytest.approx(0.7)
    assert _halfway(right, np.array([-1.0]), 0.9) == pytest.approx(0.45)
    assert _halfway(np.linspace(0, 1, 101), np.array([0.7]), 0.8) == 0.8


def test_precision_is_the_share_of_copies_among_what_is_similar_enough_by_hand():
    assert _precision(np.array([0.9, 0.5, 0.4]), np.array([0.7, 0.1]), 0.5) == pytest.approx(2 / 3)
    assert _precision(np.array([0.4]), np.array([0.1]), 0.5) == 1


def test_scores_of_copies_are_cosines_and_the_originals_are_right_by_hand(monkeypatch):
    images = scenes(6)
    vectors = Pixels().predict_on_batch(images) - 100
    monkeypatch.setattr(calibration, "COPIES", {"mirror": lambda pixels, rng: pixels[:, ::-1]})
    scores = cleaning.score_copies(Pixels(), labeled(images), vectors, center=100.0, sample=4, verify=False)
    assert scores.floor is None
    np.testing.assert_array_equal(scores.copies["mirror"], images[scores.rows][:, :, ::-1])
    for copy, row in enumerate(scores.rows):
        mirror = images[row][:, ::-1].reshape(-1) - 100.0
        cosines = [mirror @ v / np.linalg.norm(mirror) / np.linalg.norm(v) for v in vectors]
        np.testing.assert_allclose(scores.by_kind["mirror"][copy], cosines, atol=1e-5)
        assert scores.matched()["mirror"][copy] == pytest.approx(cosines[row], abs=1e-5)
        np.testing.assert_allclose(scores.mismatched()["mirror"][copy], np.delete(cosines, row), atol=1e-5)


def test_images_below_the_floor_are_not_verified():
    images = scenes(6)
    scores = cleaning.score_copies(Pixels(), labeled(images), Pixels().predict_on_batch(images), sample=3, floor=1.1)
    assert scores.floor == 1.1
    assert all((each == -1).all() for each in scores.by_kind.values())


def test_verified_copies_have_a_registration_and_are_listed_without_their_neighbors():
    images = scenes(24)
    data = labeled(np.concatenate([images, images[[3]]]))
    findings = cleaning.clean(Pixels(), data, sample=12)
    assert findings.calibration.registration < 1
    assert findings.calibration.precision >= 0.99
    assert [(x.other, x.name) for x in findings.listed if x.kind == "duplicate"] == [("3", "24")]
    assert "registration of near-duplicates: " in str(findings)
    assert cleaning.clean(Pixels(), data, sample=12, verify=False).calibration.registration is None


def test_a_calibrated_similarity_has_its_precision_and_recall():
    images = scenes()
    result = calibrated(images, sample=20)
    assert result.images == 20
    assert result.precision >= 0.99
    assert set(result.recall) == set(cleaning.COPIES)
    for recall in result.recall.values():
        assert 0 <= recall.low <= recall.value <= recall.high <= 1
    assert result.recall["jpeg"].value >= 0.9


def test_duplicates_that_a_set_has_already_do_not_raise_the_similarity():
    images = scenes()
    doubled = np.concatenate([images, images])
    once, twice = (calibrated(x, sample=80, verify=False).similarity for x in (images, doubled))
    assert twice < once + 0.05


def test_copies_and_leaks_are_listed_with_what_to_do_and_leaks_come_first():
    images = scenes()
    train = labeled(np.concatenate([images[:30], images[[3]]]), [0] * 30 + [1])
    test = labeled(np.concatenate([images[30:], images[[5]]]))
    findings = cleaning.clean(Pixels(), {"train": train, "test": test}, similarity=0.99)
    leak, duplicate = (finding for finding in findings.listed if finding.kind in ("leak", "duplicate"))
    assert (leak.kind, leak.other_split, leak.other, leak.split, leak.name) == ("leak", "train", "5", "test", "10")
    assert (duplicate.kind, duplicate.other, duplicate.name, duplicate.label) == ("duplicate", "3", "30", "b")
    assert "one of the labels is wrong" in duplicate.suggestion
    assert findings.listed[0] == leak
    assert "1 leaks between sets" in str(findings)


def test_a_wrong_label_and_an_outlier_are_listed():
    rng = np.random.default_rng(1)
    centers = np.repeat(scenes(4, seed=2), 10, axis=0).astype(int)
    images = np.clip(centers + rng.integers(-25, 26, centers.shape), 0, 255).astype("uint8")
    images[7] = rng.integers(0, 2, images[7].shape) * 255
    labels = np.repeat(np.arange(4), 10)
    labels[20] = 0
    findings = cleaning.clean(Pixels(), labeled(images, labels), similarity=0.9999)
    suspects = [finding for finding in findings.listed if finding.kind == "label"]
    assert ("20", "a") in [(finding.name, finding.label) for finding in suspects]
    assert "'c'" in next(finding.suggestion for finding in suspects if finding.name == "20")
    assert "7" in [finding.name for finding in findings.listed if finding.kind == "outlier"]


def test_an_outlier_is_far_from_its_neighbors_for_its_class():
    """A gap of 8 in a class of gaps of 1 is listed, in a class of gaps of 8 it is not; small classes have one limit."""
    distances = np.concatenate([np.linspace(0.9, 1.1, 10), [8], np.linspace(7.2, 8.8, 10), [1, 8]])
    labels = np.array(["tight"] * 11 + ["wide"] * 10 + ["small"] * 2)
    limits = _limits(distances, labels, np.ones(23, bool))
    assert np.flatnonzero(distances > limits).tolist() == [10]
    tight = distances[:11]
    assert limits[0] == pytest.approx(np.median(tight) + 5 * 1.4826 * np.median(abs(tight - np.median(tight))))
    assert limits[-1] == pytest.approx(
        np.median(distances) + 5 * 1.4826 * np.median(abs(distances - np.median(distances)))
    )


def test_an_interrupted_run_resumes_with_the_findings_of_an_uninterrupted_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tfdml.embedding.in_memory._BATCHES_PER_BLOCK", 1)
    images = scenes(32)
    sets = {
        "train": labeled(images[:20], np.arange(20) % 4),
        "test": labeled(np.concatenate([images[20:], images[:2]])),
    }
    options = {"similarity": 0.99, "batch_size": 4}
    with pytest.raises(KeyboardInterrupt):
        cleaning.clean(Pixels(interrupted=8), sets, cache=tmp_path / "cache", **options)
    resumed = Pixels()
    findings = cleaning.clean(resumed, sets, cache=tmp_path / "cache", **options)
    assert findings == cleaning.clean(Pixels(), sets, **options)
    assert resumed.batches == 2
    again = Pixels()
    assert cleaning.clean(again, sets, cache=tmp_path / "cache", **options) == findings
    assert again.batches == 0
    remove_cache(tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_embeddings_of_another_model_or_of_other_images_are_made_again(tmp_path):
    data, options = labeled(scenes(8)), {"similarity": 0.99, "cache": tmp_path}
    cleaning.clean(Pixels(), data, **options)
    other = Pixels(fingerprint="other")
    with pytest.warns(UserWarning, match=r"another model \(pixels, now other\). Its embeddings are made again"):
        cleaning.clean(other, data, **options)
    assert other.batches == 1
    with pytest.warns(UserWarning, match=r"another set and another model \(other, now pixels\). Its embeddings"):
        findings = cleaning.clean(Pixels(), labeled(scenes(9)), **options)
    assert findings.images == 9
    (tmp_path / "0" / "000000000.npz").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="damaged"):
        assert cleaning.clean(Pixels(), labeled(scenes(9)), **options) == findings


def test_two_calls_do_not_write_one_cache_at_once(tmp_path):
    data, options = labeled(scenes(8)), {"similarity": 0.99, "cache": tmp_path}

    class Other(Pixels):
        def predict_on_batch(self, x):
            with pytest.raises(BlockingIOError, match=r"cache='.*0', which process"):
                cleaning.clean(Pixels(), data, **options)
            return super().predict_on_batch(x)

    assert cleaning.clean(Other(fingerprint="other"), data, **options) == cleaning.clean(
        Pixels(), data, similarity=0.99
    )


def test_a_folder_of_something_else_is_no_cache_and_stays(tmp_path):
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "1.npz").write_bytes(b"of a user")
    with pytest.raises(FileExistsError, match="a folder of something else"):
        cleaning.clean(Pixels(), labeled(scenes(8)), similarity=0.99, cache=tmp_path)
    assert (tmp_path / "0" / "1.npz").read_bytes() == b"of a user"


def test_a_set_without_images_one_image_and_wrong_options_are_refused():
    for data, message in (({}, "no sets"), (labeled(scenes(1)), "1 image that can be read, expected at least two")):
        with pytest.raises(ValueError, match=message):
            cleaning.clean(Pixels(), data)
    for options, message in (
        ({"precision": 2}, "precision=2"),
        ({"sample": 1}, "sample=1"),
    ):
        with pytest.raises(ValueError, match=message):
            cleaning.clean(Pixels(), labeled(scenes(4)), **options)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """The folders photos/train and photos/test with a leak, a copy and a broken file, and a fast model."""
    images = scenes(12)
    for split, rows in (("train", [0, 1, 2, 3, 4, 0]), ("test", [5, 6, 7, 8, 1])):
        for number, row in enumerate(rows):
            write_png(tmp_path / "photos" / split / "class" / f"{number}.png", images[row])
    (tmp_path / "photos" / "train" / "class" / "broken.png").write_bytes(b"no image")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "_model_of_clean", lambda options: (Pixels(), datasets.Preprocessing(size=24)))
    return tmp_path


@pytest.mark.slow
def test_the_command_writes_a_table_and_a_page_and_deletes_nothing(photos, capsys):
    before = {path: path.read_bytes() for path in photos.rglob("*") if path.is_file()}
    assert cli.main(["clean", "photos", "--out", "out/", "--similarity", "0.99"]) == 1
    assert sorted(path.name for path in photos.iterdir()) == ["out", "photos"]
    printed = capsys.readouterr().out
    assert "1 leaks between sets" in printed
    with open("out/findings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows if row["kind"] != "outlier"] == ["leak", "duplicate", "unreadable"]
    assert rows[-1]["name"] == "photos/train/class/broken.png"
    page = (photos / "out" / "report.html").read_text()
    assert page.count("data:image/jpeg") >= 4
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["empty", "--out", "out"], "'empty', which has no image"),
        (["photos", "--out", "photos/out"], "photos/out"),
        (["photos", "--out", "empty/../photos"], "photos"),
    ],
)
def test_folders_that_cannot_be_cleaned_are_refused(words, message, photos, capsys):
    (photos / "empty").mkdir()
    assert cli.main(["clean", *words]) == 2
    assert message in capsys.readouterr().err


def written(names):
    for name in names:
        write_png(name, np.zeros((2, 2, 3), np.uint8))


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        (("train/a/1", "valid/a/1", "test/a/1"), ["train", "valid", "test"]),
        (("Test/a/1", "TRAIN/1", "holdout/a/1"), ["TRAIN", "Test", "holdout"]),
        (("train/a/1", "mine/a/1"), ["train", "mine"]),
        (("a/1", "b/1"), [""]),
        (("train/1", "bus/1"), [""]),  # two classes
    ],
)
def test_every_subfolder_is_a_part_once_there_are_splits(files, parts, tmp_path):
    written([tmp_path / f"{name}.png" for name in files])
    (tmp_path / ".hidden").mkdir()
    assert inputs.split_folders(tmp_path) == [tmp_path / part for part in parts]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("train/a/1.png", "valid/a/1.png", "labels/1.txt"), "'split/labels', which has no image"),
        (("train/a/1.png", "valid/a/1.png", "0.png"), "with 1 image beside its folders, such as ['split/0.png']"),
    ],
)
def test_images_that_would_be_left_out_end_the_command(files, message, photos, capsys):
    written([f"split/{name}" for name in files])
    assert cli.main(["clean", "split", "--out", "out"]) == 2
    assert message in capsys.readouterr().err


def test_files_of_a_flat_folder_that_are_left_out_are_counted(photos, capsys):
    written(["flat/1.png", "flat/2.jp2", "flat/.png"])
    assert len(inputs.open_folder(Path("flat"), datasets.Preprocessing(size=8))) == 1
    assert "left out of the set: 2, first flat/2.jp2: suffix '.jp2'" in capsys.readouterr().err


def test_removing_a_cache_leaves_the_folders_of_others(tmp_path):
    photos = tmp_path / "cache" / "2024"
    photos.mkdir(parents=True)
    (photos / "0.npz").write_bytes(b"mine")
    remove_cache(tmp_path / "cache")
    assert (photos / "0.npz").read_bytes() == b"mine"


def placeholder(kind):
    """A picture of one color, or one with details."""
    return np.full((24, 24, 3), 235, np.uint8) if kind == "flat" else scenes(1, seed=9)[0]


@pytest.mark.parametrize("options", [{"sample": 12}, {"sample": 12, "verify": False}, {"similarity": 0.99}])
@pytest.mark.parametrize("kind", ["flat", "detailed"])
def test_copies_of_a_placeholder_change_no_finding_among_the_other_images(kind, options):
    """They are listed as copies, under whatever labels; center, calibration and neighbors are those without them."""
    images, labels = np.concatenate([scenes(24), scenes(24)[:2]]), np.arange(26) % 2
    copies = np.repeat(placeholder(kind)[None], 30, axis=0)
    alone = cleaning.clean(Pixels(), labeled(images, labels), **options)
    both = labeled(np.concatenate([images, copies]), [*labels, *np.arange(30) % 3])
    findings = cleaning.clean(Pixels(), both, **options)
    among = [finding for finding in findings.listed if int(finding.name) < 26]
    assert [finding[:-2] for finding in among] == [finding[:-2] for finding in alone.listed]
    assert findings.calibration == alone.calibration
    others = [finding for finding in findings.listed if int(finding.name) >= 26]
    assert [(each.kind, each.other, each.score) for each in others] == [("duplicate", "26", 1.0)] * 29


def test_a_placeholder_of_two_sets_is_a_leak_of_each_copy():
    sets = [
        labeled(np.concatenate([scenes(8, seed), np.repeat(placeholder("flat")[None], 4, axis=0)])) for seed in (1, 2)
    ]
    findings = cleaning.clean(Pixels(), dict(zip(("train", "test"), sets, strict=True)), similarity=0.999)
    leaks = [each for each in findings.listed if each.kind == "leak"]
    assert [(each.other, each.name) for each in leaks] == [("8", str(row)) for row in range(8, 12)]


@pytest.mark.parametrize("images", [np.repeat(scenes(1), 6, axis=0), np.arange(12, dtype=np.uint8).reshape(4, 1, 1, 3)])
@pytest.mark.parametrize("verify", [True, False])
def test_a_calibration_that_cannot_tell_says_so_and_claims_no_precision(images, verify):
    findings = cleaning.clean(Pixels(), labeled(images), verify=verify)
    assert findings.calibration.precision is None
    assert "different image" in findings.problem
    assert "cannot tell copies" in str(findings)
    assert "precision" not in str(findings)
    copies = [each for each in findings.listed if each.kind == "duplicate"]
    assert len(copies) == len(images) - len(np.unique(images, axis=0))


def test_files_of_equal_pixels_are_copies_whatever_their_bytes(tmp_path):
    for number, row in enumerate([0, 1, 2, 2, 3]):
        content = tf.io.encode_png(scenes(4)[row], compression=number).numpy()
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{number}.png").write_bytes(content)
    data = datasets.folder(tmp_path, load=datasets.Preprocessing(size=24))
    duplicates = [each for each in cleaning.clean(Pixels(), data).listed if each.kind == "duplicate"]
    assert [(Path(each.other).stem, Path(each.name).stem, each.score) for each in duplicates] == [("2", "3", 1.0)]


def saved(folder, images, quality=95):
    """A set of the files of images; `quality` of each JPEG, or of all."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (image, each) in enumerate(zip(images, np.broadcast_to(quality, len(images)), strict=True)):
        content = tf.io.encode_jpeg(image, quality=int(each), xmp_metadata=f"{folder.name} {number}")
        (folder / f"{len(list(folder.iterdir())):03}.jpg").write_bytes(content.numpy())
    return datasets.folder(folder, load=datasets.Preprocessing(size=24))


@pytest.mark.parametrize("kind", ["flat", "detailed"])
def test_near_copies_of_a_placeholder_change_no_finding_among_the_other_images(kind, tmp_path):
    """JPEGs of qualities from 20 to 95, at other sizes, and with other metadata, of one picture."""
    images = scenes(40, side=96)
    alone = saved(tmp_path / "a", [*images, images[0, 8:, :-9], images[1, :-9, 8:]])
    findings = cleaning.clean(Pixels(), alone, sample=20)
    picture = tf.image.resize(placeholder(kind), (96, 96))
    sides = np.random.default_rng(0).integers(40, 200, (100, 2))
    sides[:, 1] = sides[:, 0]
    copies = [np.uint8(tf.round(tf.image.resize(picture, pair, antialias=True))) for pair in sides]
    both = saved(tmp_path / "a", copies, quality=np.linspace(20, 95, 100))
    result = cleaning.clean(Pixels(), both, sample=20)
    names = set(alone.paths.tolist())
    assert [each[:-2] for each in result.listed if each.name in names] == [each[:-2] for each in findings.listed]
    assert result.calibration == findings.calibration
    if kind == "detailed":
        others = [each for each in result.listed if each.name not in names]
        assert {(each.kind, Path(each.other).stem) for each in others} == {("duplicate", "042")}
        assert len(others) == 99


def test_an_image_is_loaded_once_and_once_more_for_the_calibration():
    calls, images = [], scenes(30)

    def load(image):
        return tf.numpy_function(lambda pixels: (calls.append(pixels.tobytes()), pixels)[1], [image], tf.uint8)

    def shaped(image):
        return tf.ensure_shape(load(image), (24, 24, 3))

    data = datasets.LabeledSet(images=images, labels=np.zeros(30, int), class_names=("a",), load=shaped)
    cleaning.clean(Pixels(), data, sample=10)
    assert sorted(set(calls)) == sorted(image.tobytes() for image in images)
    assert len(calls) == 30 + 10


@pytest.mark.parametrize("load", [{"size": 24}, {"size": 16, "resize": 24, "channels": 1}, {"size": 24, "boxes": True}])
def test_a_description_belongs_to_the_example_that_the_set_loads(load, tmp_path):
    data = saved(tmp_path, scenes(3, side=90))
    boxes = np.array([[0, 0, 90, 80], [5, 5, 60, 60], [1, 2, 30, 40]], float) if "boxes" in load else None
    data = dataclasses.replace(data, load=datasets.Preprocessing(**load), boxes=boxes)
    described = dataclasses.replace(data, load=Beside(data.load, description))
    (examples, descriptions), _ = next(iter(described.loadable(3)))
    np.testing.assert_array_equal(examples, data.examples())
    vectors, thumbnails, contents = split_descriptions(np.concatenate([np.eye(3), descriptions], axis=1))
    np.testing.assert_array_equal(vectors, np.eye(3))
    assert [each[1:] for each in thumbnails] == ([(80, 90), (55, 55), (38, 29)] if "boxes" in load else [(90, 90)] * 3)
    assert len(set(contents)) == 3
    for row, path in enumerate(data.paths):
        pixels = np.asarray(Image.open(path))
        if boxes is not None:
            left, upper, right, lower = boxes[row].astype(int)
            pixels = pixels[upper:lower, left:right]
        np.testing.assert_allclose(thumbnails[row].gray, gray_thumbnail(pixels), atol=1e-4)
