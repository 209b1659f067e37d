"""Alignment by five points against scikit-image, on the face of its astronaut."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from skimage import data, transform

from recipes.faces import align_faces, face_points, face_template, similarity_transform
from tfdml.datasets import LabeledSet, Preprocessing

# Eyes, nose and corners of the mouth of the astronaut, by eye.
ASTRONAUT = np.array([[204.0, 100], [245, 102], [224, 126], [202, 139], [244, 140]])
NO_FACE = np.full((5, 2), np.nan)
ABOUT = {"labels": np.zeros(1, np.int64), "class_names": ("astronaut",)}


@pytest.fixture(scope="module")
def astronaut():
    return data.astronaut()


def faces_of(*images, **columns):
    labels, boxes = np.zeros(len(images), np.int64), np.zeros((len(images), 4))
    return LabeledSet(images=np.stack(images), labels=labels, class_names=("astronaut",), boxes=boxes, **columns)


def test_the_transform_is_that_of_scikit_image_also_where_points_are_mirrored_or_missing():
    points = np.random.default_rng(0).normal(size=(6, 5, 2)) * 20 + 50
    points[4], points[5] = face_template() * [-1, 1], np.nan
    found = similarity_transform(points, face_template())
    for row in range(5):
        expected = transform.SimilarityTransform.from_estimate(points[row], face_template()).params[:2]
        np.testing.assert_allclose(found[row], expected, atol=1e-9)
    assert np.isnan(found[5]).all()


def test_pixels_are_those_of_scikit_image_with_black_outside(astronaut):
    groups = np.array([3, 4])
    faces = faces_of(astronaut[80:160, 180:260], astronaut[:80, :80], groups=groups)
    points = ASTRONAUT - [180, 80]
    aligned = align_faces(faces, [points, NO_FACE], size=64)
    tform = transform.SimilarityTransform.from_estimate(points, face_template(64))
    expected = transform.warp(faces.images[0], tform.inverse, order=1, output_shape=(64, 64), preserve_range=True)
    difference = np.abs(aligned.examples()[0] - expected)[8:-8, 8:-8]
    assert difference.max() < 1.0  # rounded to whole levels, from coordinates in single precision
    assert (aligned.examples()[0][0] == 0).all()
    assert (aligned.boxes, aligned.groups.tolist()) == (None, [3, 4])


def test_files_and_records_give_the_pixels_of_the_array(astronaut, tmp_path):
    file = tf.io.encode_png(astronaut).numpy()
    (tmp_path / "face.png").write_bytes(file)
    paths = LabeledSet(paths=np.array([str(tmp_path / "face.png")]), load=Preprocessing(size=9), **ABOUT)
    records = LabeledSet(source=[file], load=Preprocessing(size=9).from_bytes, **ABOUT)
    expected = align_faces(faces_of(astronaut), ASTRONAUT[None], size=32).examples()
    for faces in (paths, records):
        points = face_points(faces, detector=lambda image: ASTRONAUT if (image == astronaut).all() else None)
        np.testing.assert_array_equal(align_faces(faces, points, size=32).examples(), expected)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="mtcnn runs on TensorFlow")
def test_mtcnn_finds_the_face_in_the_middle_and_nothing_in_a_picture_without_one(astronaut):
    # Two faces side by side, the left one nearer to the center.
    left, right = astronaut[20:220, 124:324], astronaut[20:220, 180:280]
    both = np.concatenate([left, right], axis=1)
    found = face_points(faces_of(both, np.zeros_like(both)))
    np.testing.assert_allclose(found[0], ASTRONAUT - [124, 20], atol=3)
    assert np.isnan(found[1]).all()
