"""Alignment by five points against scikit-image, on the face of its astronaut."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from skimage import data, transform

from tfdml.datasets import LabeledSet, Preprocessing, align_faces, face_points
from tfdml.datasets.images import alignment
from tfdml.datasets.images.alignment import face_template, similarity_transform

# Eyes, nose and corners of the mouth of the astronaut, by eye.
ASTRONAUT = np.array([[204.0, 100], [245, 102], [224, 126], [202, 139], [244, 140]])
NO_FACE = np.full((5, 2), np.nan)


@pytest.fixture(scope="module")
def astronaut():
    return data.astronaut()


def faces_of(*images, **columns):
    return LabeledSet(
        images=np.stack(images),
        labels=np.zeros(len(images), np.int64),
        class_names=("astronaut",),
        boxes=np.zeros((len(images), 4)),
        **columns,
    )


def drawn(seed, sets=()):
    return np.random.default_rng(seed).normal(size=(*sets, 5, 2)) * 20 + 50


@pytest.mark.parametrize("seed", range(5))
def test_the_transform_is_that_of_scikit_image(seed):
    points, targets = drawn(seed), drawn(seed + 100)
    expected = transform.SimilarityTransform.from_estimate(points, targets).params[:2]
    np.testing.assert_allclose(similarity_transform(points, targets), expected, atol=1e-9)


def test_many_sets_of_points_are_done_at_once_and_a_missing_one_stays_missing():
    points = drawn(0, (3,))
    points[1] = np.nan
    found = similarity_transform(points, face_template())
    np.testing.assert_allclose(found[2], similarity_transform(points[2], face_template()))
    assert np.isnan(found[1]).all()


def test_points_are_never_mirrored():
    template = face_template()
    mirrored = template * [-1, 1]
    matrix = similarity_transform(mirrored, template)
    assert np.linalg.det(matrix[:, :2]) >= 0
    expected = transform.SimilarityTransform.from_estimate(mirrored, template).params[:2]
    np.testing.assert_allclose(matrix, expected, atol=1e-9)


def test_the_template_is_the_published_one_at_any_size():
    assert face_template().tolist() == [
        [38.2946, 51.6963],
        [73.5318, 51.5014],
        [56.0252, 71.7366],
        [41.5493, 92.3655],
        [70.7299, 92.2041],
    ]
    np.testing.assert_allclose(face_template(224), 2 * face_template())


def test_pixels_are_those_of_scikit_image(astronaut):
    aligned = align_faces(faces_of(astronaut), ASTRONAUT[None], size=64)
    tform = transform.SimilarityTransform.from_estimate(ASTRONAUT, face_template(64))
    expected = transform.warp(astronaut, tform.inverse, order=1, output_shape=(64, 64), preserve_range=True, cval=0.0)
    difference = np.abs(aligned.examples()[0] - expected)
    assert difference.max() < 1.0  # rounded to whole levels, from coordinates in single precision
    assert difference.mean() < 0.3
    assert aligned.boxes is None


def test_outside_an_image_pixels_are_black(astronaut):
    far = faces_of(astronaut[80:160, 180:260])
    pixels = align_faces(far, ASTRONAUT[None] - [180, 80]).examples()[0]
    assert (pixels[0] == 0).all()
    assert (pixels[56] > 0).any()


@pytest.mark.parametrize("side", [40, 41])
def test_the_whole_center_at_its_own_size_is_cut_out(side, monkeypatch):
    monkeypatch.setattr(alignment, "_CROP", 1.0)
    image = np.random.default_rng(0).integers(0, 256, (side, side + 20, 3), "uint8")
    (pixels,) = align_faces(faces_of(image), NO_FACE[None], size=side).examples()
    assert np.array_equal(pixels, image[:, 10:-10])


def test_without_a_face_a_share_of_the_center_is_taken():
    ramp = np.broadcast_to(np.arange(100, dtype="uint8")[None, :, None], (80, 100, 3))
    (pixels,) = align_faces(faces_of(ramp), NO_FACE[None], size=4).examples()
    # 40 of 80 pixels around the column 49.5, in four steps of ten; halves are rounded to even.
    assert pixels[0, :, 0].tolist() == [34, 44, 54, 64]


def test_rows_and_columns_of_the_set_stay(astronaut):
    groups = np.array([3, 4])
    aligned = align_faces(faces_of(astronaut, astronaut, groups=groups), [ASTRONAUT, NO_FACE], size=32)
    assert aligned.labels.tolist() == [0, 0]
    assert aligned.groups.tolist() == [3, 4]
    images, _ = next(iter(aligned.batches(2)))
    assert images.shape == (2, 32, 32, 3)
    assert not np.array_equal(images[0], images[1])
    assert np.array_equal(aligned.take([1]).examples()[0], images[1])


class Records:
    """The contents of files."""

    def __init__(self, *files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, row):
        return self.files[row]


@pytest.mark.slow
def test_files_and_records_give_the_pixels_of_the_array(astronaut, tmp_path):
    file = tf.io.encode_png(astronaut).numpy()
    (tmp_path / "face.png").write_bytes(file)
    about = {"labels": np.zeros(1, np.int64), "class_names": ("astronaut",)}
    paths = LabeledSet(paths=np.array([str(tmp_path / "face.png")]), load=Preprocessing(size=9), **about)
    records = LabeledSet(source=Records(file), load=Preprocessing(size=9).from_bytes, **about)
    expected = align_faces(faces_of(astronaut), ASTRONAUT[None], size=32).examples()
    seen = []

    def detector(image):
        seen.append(image)
        return ASTRONAUT

    for faces in (paths, records):
        points = face_points(faces, detector=detector)
        np.testing.assert_array_equal(align_faces(faces, points, size=32).examples(), expected)
        np.testing.assert_array_equal(seen.pop(), astronaut)


def test_aligned_faces_are_cached_as_pixels(astronaut, tmp_path):
    aligned = align_faces(faces_of(astronaut, astronaut), [ASTRONAUT, NO_FACE], size=16)
    cached = aligned.cached(tmp_path / "cache")
    np.testing.assert_array_equal(cached.images, aligned.examples())


def test_a_terminal_sees_how_many_faces_are_searched(astronaut, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    face_points(faces_of(astronaut, astronaut), detector=lambda image: None)
    lines = capsys.readouterr().err
    assert [lines.count(f"] {done}/2") for done in (0, 1, 2, 3)] == [0, 1, 1, 0]
    assert lines.endswith("] 2/2\n")


def test_images_without_a_face_have_no_points(astronaut):
    found = face_points(
        faces_of(astronaut, astronaut // 2), detector=lambda image: ASTRONAUT if image.max() > 200 else None
    )
    np.testing.assert_array_equal(found, [ASTRONAUT, NO_FACE])


@pytest.mark.parametrize("points", [np.zeros((2, 5)), np.full((5, 2), np.inf), np.zeros((0, 2))])
def test_wrong_points_of_a_detector_are_errors(astronaut, points):
    with pytest.raises(ValueError, match=r"from the detector for row 0, expected finite points of shape \(5, 2\)"):
        face_points(faces_of(astronaut), detector=lambda image: points)


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        (np.zeros((5, 2)), {}, r"points of shape \(5, 2\), expected \(1, 5, 2\)"),
        (np.where(np.arange(10) == 3, np.nan, 1.0).reshape(1, 5, 2), {}, r"points of row \[0\] that are not finite"),
        (np.full((1, 5, 2), np.inf), {}, "that are not finite, expected numbers, or NaN for all of a row"),
        (np.ones((1, 5, 2)), {}, "points that are all the same"),
        (ASTRONAUT[None], {"size": 0}, "size=0"),
    ],
)
def test_wrong_arguments_are_errors(astronaut, points, options, message):
    with pytest.raises(ValueError, match=message):
        align_faces(faces_of(astronaut), points, **options)


def test_points_without_coordinates_are_an_error():
    with pytest.raises(ValueError, match=r"points of shape \(5, 3\), expected \(..., points, 2\)"):
        similarity_transform(np.zeros((5, 3)), face_template())


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="mtcnn runs on TensorFlow")
def test_mtcnn_finds_the_face_in_the_middle_and_nothing_in_a_picture_without_one(astronaut):
    # Two faces side by side, the left one nearer to the center.
    left, right = astronaut[20:220, 124:324], astronaut[20:220, 180:280]
    both = np.concatenate([left, right], axis=1)
    found = face_points(faces_of(both, np.zeros_like(both)))
    np.testing.assert_allclose(found[0], ASTRONAUT - [124, 20], atol=3)
    assert np.isnan(found[1]).all()
