import pytest

from tfdml.datasets import glyphs


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder that holds the default glyphs after their first use."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def no_cache_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDML_CACHE", str(tmp_path / "user-cache"))


@pytest.fixture(scope="session")
def parts(cache):
    """The default (train, test)."""
    return glyphs(cache=cache)
