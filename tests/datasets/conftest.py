import numpy as np
import pytest
import tensorflow as tf

from tfdml.datasets import glyphs
from tfdml.datasets.glyphs import distortion, glyph_set


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder that holds the default glyphs after their first use."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def no_cache_of_the_user(request, monkeypatch, tmp_path):
    """A test that names `cache` has it, any other test an empty folder."""
    folder = request.getfixturevalue("cache") if "cache" in request.fixturenames else tmp_path / "user-cache"
    monkeypatch.setenv("TFDML_CACHE", str(folder))


def decode(path):
    return tf.io.decode_png(tf.io.read_file(path))


def spelled(keys):
    """Keys as pictures: `(n,)` uint64 -> `(n, 32, 32)` uint8, with the bytes of the key again and again."""
    return np.tile(keys.view(np.uint8).reshape(-1, 8), (1, 128)).reshape(-1, 32, 32)


@pytest.fixture(scope="session")
def parts(cache):
    """The default (train, test), whole, where each picture spells its key: drawing takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glyph_set, "_drawings", lambda fonts, code_points, faces: None)
        patch.setattr(distortion, "distort", lambda drawings, keys: spelled(keys))
        patch.setenv("TFDML_CACHE", str(cache))
        return glyphs()
