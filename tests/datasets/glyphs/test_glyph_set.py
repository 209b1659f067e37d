"""The glyphs as users get them."""

import importlib.util
import pathlib
import sys
import unicodedata
import zlib

import numpy as np
import pytest

from tests.datasets.conftest import spelled
from tfdml.datasets import glyphs
from tfdml.datasets.glyphs import distortion, glyph_set, typefaces
from tools import make_glyphs_manifest

REFERENCE = pathlib.Path(__file__).with_name("reference_glyphs.npz")
CLASSES, IMAGES = {"train": 872, "test": 854}, {"train": 11_773, "test": 11_411}


def keys(part):
    return set(zip(part.code_points.tolist(), part.faces.tolist(), part.views.tolist(), strict=True))


def some(rows):
    """Some of the default drawings, by row of the manifest."""
    return glyph_set.Selection(*(column[rows] for column in glyph_set.load_manifest()))


def drawn(chosen, views=1):
    return glyph_set._render(typefaces.wheel_faces(), chosen, views)["images"]


def code_points_of(part):
    return np.array([ord(name) for name in part.class_names])


def in_manifest_order(parts):
    """Images of both parts, sorted as in the manifest: class, code point, face."""
    train, test = parts
    classes = np.concatenate([code_points_of(p)[p.labels] for p in parts])
    code_points, faces = (np.concatenate([getattr(p, n) for p in parts]) for n in ("code_points", "faces"))
    return np.concatenate([train.images, test.images])[np.lexsort((faces, code_points, classes))]


def test_the_parts_have_the_documented_sizes(parts):
    for part, name in zip(parts, ("train", "test"), strict=True):
        assert len(part) == IMAGES[name] == len(part.images)
        assert len(part.class_names) == CLASSES[name]
        sizes = np.bincount(part.labels)
        assert (sizes.min(), sizes.max()) == (8, {"train": 56, "test": 54}[name])


def test_arrays_have_the_documented_types_and_shapes(parts):
    for part in parts:
        n = len(part)
        assert part.images.shape == (n, 32, 32, 1)
        assert part.images.dtype == np.uint8
        for name in ("labels", "code_points", "faces", "designs", "views"):
            array = getattr(part, name)
            assert (array.shape, array.dtype) == ((n,), np.int64), name
        assert len(part.face_names) == 21
        assert part.design_names == (
            "DejaVu Sans",
            "DejaVu Sans Mono",
            "DejaVu Serif",
            "STIX General",
            "Computer Modern",
        )
        assert part.design_names[part.designs[0]].replace(" ", "") in part.face_names[part.faces[0]]


def test_the_hash_of_the_class_decides_its_part(parts):
    for part, odd in zip(parts, (0, 1), strict=True):
        for c in code_points_of(part).tolist():
            assert zlib.crc32(f"glyphs:{c:x}".encode()) % 2 == odd


def test_every_image_is_a_letter_or_number_and_no_drawing_comes_twice(parts):
    for part in parts:
        assert len(keys(part)) == len(part)
        assert {unicodedata.category(chr(c))[0] for c in part.code_points.tolist()} == {"L", "N"}


def test_latin_greek_and_cyrillic_a_are_one_class_of_many_faces(parts):
    part = next(p for p in parts if ord("A") in code_points_of(p))
    rows = code_points_of(part)[part.labels] == ord("A")
    assert set(part.faces[rows].tolist()) == set(range(21))
    for p in parts:
        assert not {0x391, 0x410} & set(code_points_of(p).tolist())


def test_validation_is_carved_from_the_training_classes(parts, cache):
    train, validation, test = glyphs(validation=True)
    assert keys(train) | keys(validation) == keys(parts[0])
    assert not set(code_points_of(train).tolist()) & set(code_points_of(validation).tolist())
    np.testing.assert_array_equal(test.images, parts[1].images)
    assert (len(validation.class_names), len(validation)) == (196, 2_639)
    assert {zlib.crc32(f"glyphs-validation:{c:x}".encode()) % 5 for c in code_points_of(validation).tolist()} == {0}


def test_the_script_split_trains_on_latin_and_tests_on_the_rest(parts, cache):
    train, test = glyphs(split="script")
    assert (len(train), len(test)) == (12_851, 10_333)
    assert (len(train.class_names), len(test.class_names)) == (869, 857)
    assert all(unicodedata.name(chr(c)).startswith("LATIN") for c in code_points_of(train).tolist())
    assert not any(unicodedata.name(chr(c)).startswith("LATIN") for c in code_points_of(test).tolist())


def test_each_part_names_its_protocol(parts, cache):
    assert [p.protocol for p in parts] == [
        "glyphs/class-disjoint-train/exact-cosine/v1",
        "glyphs/class-disjoint/exact-cosine/v1",
    ]
    assert [p.protocol for p in glyphs(split="script", validation=True)] == [
        "glyphs/script-disjoint-train/exact-cosine/v1",
        "glyphs/script-disjoint-validation/exact-cosine/v1",
        "glyphs/script-disjoint/exact-cosine/v1",
    ]


def test_the_second_call_reads_the_cache(parts, cache, monkeypatch):
    monkeypatch.setattr(glyph_set, "_render", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    for first, second in zip(parts, glyphs(), strict=True):
        for field in ("images", "labels", "code_points", "faces", "designs", "views", "class_names"):
            np.testing.assert_array_equal(getattr(first, field), getattr(second, field))


def test_every_picture_is_drawn_from_the_key_of_its_character_and_face(parts):
    for part in parts:
        face_ids = np.array([zlib.crc32(name.encode()) for name in part.face_names])[part.faces]
        expected = distortion.image_keys(part.code_points, face_ids, view=0)
        np.testing.assert_array_equal(part.images[..., 0], spelled(expected))


def test_pixels_agree_with_the_committed_reference(monkeypatch, tmp_path):
    with np.load(REFERENCE) as reference:
        rows, expected = reference["rows"], reference["images"].astype(int)
    make_glyphs_manifest.save_manifest(tmp_path / "few.npz", some(rows))
    monkeypatch.setattr(glyph_set, "_MANIFEST", tmp_path / "few.npz")
    difference = np.abs(in_manifest_order(glyphs()).astype(int) - expected)
    # Rasterizers differ by a few gray levels at the edge of a stroke.
    assert difference.max() <= 12
    assert difference.mean() <= 0.5


def test_an_image_does_not_depend_on_its_chunk_or_on_the_other_images(monkeypatch):
    rows = np.linspace(0, sum(IMAGES.values()) - 1, 46).astype(int)
    expected = drawn(some(rows))[::2]
    monkeypatch.setattr(glyph_set, "_CHUNK", 5)
    np.testing.assert_array_equal(drawn(some(rows[::2])), expected)


def test_the_first_view_is_the_default_set_and_the_others_differ():
    few = some(np.linspace(0, sum(IMAGES.values()) - 1, 20).astype(int))
    arrays = glyph_set._render(typefaces.wheel_faces(), few, views=3)
    first, second, third = arrays["images"].reshape(3, 20, 32, 32, 1).astype(int)
    np.testing.assert_array_equal(first, drawn(few))
    np.testing.assert_array_equal(arrays["views"], np.repeat([0, 1, 2], 20))
    for a, b in ((first, second), (first, third), (second, third)):
        assert np.abs(a - b).mean(axis=(1, 2, 3)).min() > 1


@pytest.mark.nightly  # a number of the page: draws the whole test set
def test_raw_pixels_find_about_a_third_of_the_characters():
    classes = glyph_set.load_manifest().classes
    test = some(np.array([zlib.crc32(f"glyphs:{c:x}".encode()) % 2 == 1 for c in classes.tolist()]))
    x = drawn(test).reshape(IMAGES["test"], -1).astype(np.float32)
    x -= x.mean(axis=1, keepdims=True)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    right = 0
    for start in range(0, len(x), 1000):
        similarity = x[start : start + 1000] @ x.T
        similarity[np.arange(len(similarity)), np.arange(start, start + len(similarity))] = -2
        right += (test.classes[similarity.argmax(axis=1)] == test.classes[start : start + 1000]).sum()
    assert 100 * right / len(x) == pytest.approx(33.7, abs=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "random"}, r"Received split='random', expected 'class' or 'script'"),
        ({"views": 0}, r"Received views=0, expected a whole number of at least 1"),
        ({"views": 1.0}, r"Received views=1.0, expected a whole number of at least 1"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        glyphs(**options)


def test_missing_libraries_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"A drawing of glyphs needs PIL: pip install tfdml\[plots\]"):
        glyphs()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"matplotlib, which is not installed. Run: pip install tfdml\[plots\]"):
        glyphs()
