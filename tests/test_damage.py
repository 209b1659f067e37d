"""What tfdml stores and reads again is consistent or is refused, whichever file was damaged."""

import json
import os
from dataclasses import asdict

import numpy as np
import pytest

from tests.damage import assert_consistent_or_refused, files_of, refusal
from tests.search.index.test_damage import assert_consistent as assert_consistent_index
from tests.training.test_settings import settings
from tests.worlds import Pixels
from tests.zoo.cards import write_entry
from tfdml import datasets, models, search, zoo
from tfdml._core.checksums import write_checksums
from tfdml.search import LinearAdapter
from tfdml.search.index.shards import write_manifest
from tfdml.training.settings_file import FILE, read_settings, require_options, write_settings
from tfdml.visualize import Thumbnails, write_thumbnails

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 6, 5, 3), np.uint8)
SET = datasets.LabeledSet(images=IMAGES, labels=np.repeat(np.arange(4), 3), class_names=tuple("abcd"))
VECTORS = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "stored"


def assert_consistent_embeddings(found):
    n = len(found)
    assert found.embeddings.shape[0] == len(found.rows) == n > 0
    assert found.embeddings.dtype == np.float32
    assert found.rows.dtype.kind == "i"
    assert found.class_names == tuple(sorted(set(found.class_names)))
    assert found.labels is None or ((found.labels >= -1) & (found.labels < len(found.class_names))).all()
    assert all(isinstance(row, int) and isinstance(name + reason, str) for row, name, reason in found.skipped)


def test_embeddings(folder):
    models.write_embeddings(Pixels(4), SET, folder)
    assert assert_consistent_or_refused(folder, models.read_embeddings) > 50
    assert assert_consistent_or_refused(folder, models.read_embeddings, assert_consistent_embeddings) > 50


def test_a_table_of_embeddings_without_its_end_is_refused_though_its_checksum_fits(folder):
    models.write_embeddings(Pixels(4), IMAGES, folder)
    os.truncate(folder / "examples.csv", (folder / "examples.csv").stat().st_size - 3)  # row 11 reads as row 1
    write_checksums(folder)
    with pytest.raises(ValueError, match=r"examples\.csv whose last line has no end"):
        models.read_embeddings(folder)


def test_a_cache(folder):
    SET.cached(folder)
    read = lambda folder: SET.cached(folder)  # noqa: E731
    assert assert_consistent_or_refused(folder, read, named=str(folder)) > 50


def test_a_card(tmp_path):
    folder = write_entry(tmp_path, "squares")

    def read(folder):
        """The card; whatever it is, the list of all has its line."""
        found = zoo.list_models(tmp_path)
        assert len(str(found).splitlines()) > 0
        assert found.markdown()
        assert found.names == () if found.unreadable else len(found.names) <= 1
        return zoo.card("squares", root=tmp_path)

    def assert_consistent(card):
        free = {"preprocessing": None, "training": None}  # of other forms
        counts = (*card.input, *card.sizes.values(), card.timing.batch_size)
        assert all(type(count) is int and 0 <= count < 2**63 for count in counts)
        assert str(card)
        assert card.as_dict() | free == json.loads((folder / "model.json").read_text()) | free

    assert assert_consistent_or_refused(folder, read, named="squares") > 30
    assert assert_consistent_or_refused(folder, read, assert_consistent, named="squares") > 500


def test_shards(folder):
    for number, rows in enumerate((slice(0, 5), slice(5, 12))):
        ids = [f"item {row}" for row in range(12)[rows]]
        search.Exact(VECTORS[rows], ids, metric="euclidean").save(folder / f"part-{number}")
    write_manifest(folder, {}, [{"name": "part-0", "vectors": 5}, {"name": "part-1", "vectors": 7}])
    parts = files_of(folder).keys() - {"shards.json"}
    assert assert_consistent_or_refused(folder, search.load, names=parts) > 100
    read = lambda folder: (search.load(folder), None)  # noqa: E731
    assert assert_consistent_or_refused(folder, read, assert_consistent_index, names={"shards.json"}) > 100


def test_thumbnails(folder):
    folder.mkdir()
    write_thumbnails(folder / "thumbnails.npz", ["b", "../a", "e"], IMAGES[:3], size=6)

    def assert_consistent(thumbnails):
        for item_id in thumbnails:
            message = refusal(lambda item_id=item_id: thumbnails[item_id])
            assert not message or "a damaged thumbnail of id" in message

    read = lambda folder: Thumbnails.load(folder / "thumbnails.npz")  # noqa: E731
    assert assert_consistent_or_refused(folder, read, assert_consistent) > 30


def test_an_adapter(folder):
    folder.mkdir()
    LinearAdapter.learn(VECTORS, VECTORS[:, :2], old_model="old", new_model="new").save(folder / "adapter.npz")

    def assert_consistent(adapter):
        x = np.ones((3, adapter.old_dim), np.float32)
        assert np.isfinite(adapter(x)).all()
        assert adapter(x).shape == (3, adapter.new_dim)
        assert isinstance(adapter.old_model, str | None)

    read = lambda folder: LinearAdapter.load(folder / "adapter.npz")  # noqa: E731
    assert assert_consistent_or_refused(folder, read, assert_consistent) > 30


def test_settings(folder):
    folder.mkdir()
    write_settings(folder / FILE, settings(), {}, "abc")
    read = lambda folder: read_settings(folder / FILE)  # noqa: E731
    names = asdict(settings()).keys()

    def assert_consistent(found):
        require_options({name: value for name, value in found.items() if value is not None})
        assert found.keys() <= names

    assert assert_consistent_or_refused(folder, read, assert_consistent) > 5
