"""Photo patches: photographs found as files, places chosen by a rule, views that every machine draws alike."""

import hashlib
import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tfdml.datasets import photo_patches, photograph
from tfdml.datasets.photo_patches import photographs
from tfdml.datasets.photo_patches import views as photo_views
from tfdml.datasets.photo_patches.patches import PARTS, load_manifest
from tools import make_photo_patches_manifest as places

COINS = photographs.PHOTOGRAPHS["coins"]


@pytest.fixture(scope="module")
def validation(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFDML_CACHE", str(tmp_path_factory.mktemp("photos")))
        (part,) = photo_patches(splits=("validation",))
    return part


@pytest.fixture(scope="module")
def coins():
    return photographs.read(COINS)


def test_a_part_has_eight_views_of_every_place(validation):
    assert validation.images.shape == (1168, 64, 64, 3)
    assert validation.images.dtype == np.uint8
    np.testing.assert_array_equal(validation.labels, np.repeat(np.arange(146), 8))
    np.testing.assert_array_equal(validation.views, np.tile(np.arange(8), 146))
    assert validation.photograph_names == ("chelsea", "coins", "text")
    assert np.bincount(validation.photographs).tolist() == [8 * 60, 8 * 62, 8 * 24]
    assert validation.protocol == "photo-patches/photograph-disjoint-validation/exact-cosine/v1"
    assert len(validation) == 1168


def test_the_parts_have_the_documented_numbers_of_places_and_share_no_photograph():
    manifest = load_manifest()
    assert {part: len(rows) for part, rows in manifest.items()} == {"train": 1744, "validation": 146, "test": 442}
    names = [name for part in PARTS.values() for name in part]
    assert len(set(names)) == len(names) == 17
    assert not {name for name in names if name.startswith("motorcycle")}


def test_pixels_are_the_same_on_every_machine(validation):
    found = hashlib.sha256(validation.images.tobytes()).hexdigest()
    assert found == "3d58af435de02d718b37544bc13c9794eb12adc450deb38fa0ed0cda52fc6624"


def test_a_view_depends_on_nothing_but_its_key(validation, coins):
    rows = np.flatnonzero((validation.photographs == 1) & (validation.views == 5))[[3, 40, 7]]
    chosen = validation.places[rows]
    keys = photo_views.view_keys("coins", chosen, 5)
    np.testing.assert_array_equal(photo_views.views(coins, chosen, keys), validation.images[rows])
    alone = photo_views.views(coins, chosen[1:2], keys[1:2])[0]
    np.testing.assert_array_equal(alone, validation.images[rows[1]])
    assert len(np.unique(photo_views.view_keys("coins", np.repeat(chosen, 2, axis=0), 4))) == 3
    assert (photo_views.view_keys("text", chosen, 5) != keys).all()


NEUTRAL = dict.fromkeys(photo_views.RANGES, (0.0, 0.0)) | {
    "saturation": (1.0, 1.0),
    "contrast": (1.0, 1.0),
    "cover_distance": (9.0, 9.0),
    "quality": (100.0, 100.0),
}


def view_with(monkeypatch, pixels, place, **values):
    """One view with these parameters, and all others neutral."""
    ranges = NEUTRAL | {name: (value, value) for name, value in values.items()}
    monkeypatch.setattr(photo_views, "RANGES", ranges)
    monkeypatch.setattr(photo_views, "SUPPORT", 64.0)
    found = photo_views.views(pixels, np.array([place]), np.array([7], np.uint64))
    return found[0].astype(int)


@pytest.fixture(scope="module")
def smooth():
    """A color picture without fine detail, which JPEG and interpolation hardly change."""
    y, x = np.mgrid[:200, :240]
    waves = [np.sin(x / 17 + y / 23), np.cos(x / 19 - y / 29), np.sin(x / 31 + 1)]
    return np.rint(128 + 60 * np.stack(waves, axis=-1)).astype(np.uint8)


def test_a_view_without_changes_is_the_photograph_around_the_place(smooth, monkeypatch):
    found = view_with(monkeypatch, smooth, (120, 100))
    expected = (smooth[68:133, 88:153].astype(float)[:-1, :-1] + smooth[69:133, 89:153]) / 2  # half a pixel between
    assert np.abs(found - expected).max() <= 4


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rotation": 90.0}, lambda plain: np.rot90(plain, -1)[::1, ::1][::-1, ::-1]),
        ({"zoom": -1.0}, lambda plain: np.repeat(np.repeat(plain[16:48, 16:48], 2, axis=0), 2, axis=1)),
        ({"shift_x": 3.0}, lambda plain: np.roll(plain, -3, axis=1)),
        ({"brightness": 0.1}, lambda plain: plain + 25.5),
        ({"contrast": 0.5}, lambda plain: 128 + 0.5 * (plain - 128)),
        ({"red": 0.25}, lambda plain: plain * [2**0.25, 1, 1]),
        ({"saturation": 0.0}, lambda plain: (plain @ [0.299, 0.587, 0.114])[..., None] * [1, 1, 1]),
        ({"gamma": 0.5}, lambda plain: 255 * (plain / 255) ** 2**0.5),
        ({"shading_x": 0.2}, lambda plain: plain * (1 + 0.2 * (np.arange(64) - 31.5) / 32)[:, None]),
        ({"shadow": 0.5}, lambda plain: np.where(np.arange(64)[:, None] > 31, 0.5, 1.0) * plain),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_each_parameter_does_what_it_says(smooth, monkeypatch, values, expected):
    plain = view_with(monkeypatch, smooth, (120, 100)).astype(float)
    changed = view_with(monkeypatch, smooth, (120, 100), **values)
    error = np.abs(changed - np.clip(expected(plain), 0, 255))[4:-4, 4:-4]
    assert np.percentile(error, 99) <= 6


@pytest.mark.parametrize("quality", [20, 50, 85])
def test_jpeg_is_that_of_pillow_but_for_rounding(quality):
    pixels = photographs.read(photographs.PHOTOGRAPHS["chelsea"])
    images = np.stack([pixels[y : y + 64, x : x + 64] for y in (0, 90, 200) for x in (0, 150, 300)])
    ours = photo_views.jpeg(images, np.full(len(images), quality)).astype(int)
    for image, found in zip(images, ours, strict=True):
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality, subsampling=0)
        expected = np.asarray(Image.open(file)).astype(int)
        lost, expected_loss = np.abs(found - image).mean(), np.abs(expected - image).mean()
        assert lost == pytest.approx(expected_loss, rel=0.06)
        assert np.abs(found - expected).mean() < 0.25 * expected_loss


def test_the_rules_choose_the_places_that_ship(coins):
    rows = load_manifest()["validation"]
    np.testing.assert_array_equal(places.choose(coins, distance=28, most=150), rows[rows[:, 0] == 1, 1:])
    assert len(places.choose(coins, distance=28, most=10)) == 10
    assert places.choose(np.full((100, 100, 3), 9, np.uint8), distance=28, most=10).shape == (0, 2)


def test_a_photograph_at_half_size_has_the_means_of_its_pixels():
    pixels = np.arange(5 * 4 * 3).reshape(5, 4, 3).astype(np.uint8)
    expected = (pixels[:4].astype(float).reshape(2, 2, 2, 2, 3).mean(axis=(1, 3)) + 0.5).astype(np.uint8)
    np.testing.assert_array_equal(photographs._halved(pixels), expected)


def test_the_cache_is_read_and_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"photograph chelsea.png of scikit-image.*pip install tfdml\[samples\]"):
        photo_patches(splits=("validation",))


def test_another_file_under_the_same_name_is_refused(tmp_path, monkeypatch):
    (tmp_path / "coins.png").write_bytes(b"not coins")
    moved = COINS._replace(folders=("moved/data",))
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path.parent)]})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    moved = moved._replace(folders=(f"moved/{tmp_path.name}",))
    with pytest.raises(ValueError, match=r"coins.png with sha256 [0-9a-f]{64}, expected f8d773fc"):
        photographs.find(moved)


@pytest.mark.parametrize("parts", ["train", ("train", "dev")])
def test_unknown_parts_are_refused(parts):
    with pytest.raises(ValueError, match=r"Received splits=.*, expected some of 'train', 'validation', 'test'"):
        photo_patches(splits=parts)


@pytest.mark.slow
def test_drawing_imports_no_package_of_photographs(tmp_path):
    program = (
        "import sys; from tfdml.datasets.photo_patches import photographs\n"
        "photographs.read(photographs.PHOTOGRAPHS['coins']); photographs.read(photographs.PHOTOGRAPHS['china'])\n"
        "print('skimage' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_photograph_is_read_by_its_name(coins):
    np.testing.assert_array_equal(photograph("coins"), coins)
    with pytest.raises(ValueError, match="name='cat'"):
        photograph("cat")
