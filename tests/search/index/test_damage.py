"""A damaged index loads as an index that is consistent, or is refused before a searcher reads it."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tests.damage import assert_consistent_or_refused, files_of
from tests.search.test_search import build, every_folder
from tfdml import search
from tfdml._core.checksums import write_checksums


@pytest.fixture
def saved(kind, tmp_path):
    """The folder of an index with two segments, removed items, metadata, and a center far from 0."""
    x = 1000 + np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    index = build(kind, x[:8], list("abcdefgh"), metric="euclidean", metadata={"label": list("abcdefgh")}, model="m")
    index.add(x[8:], list("ijkl"), metadata={"label": list("ijkl")}, model="m")
    index.remove(["b"])
    index.save(tmp_path / "index")
    return tmp_path / "index"


def read(folder):
    index = search.load(folder)
    return index, None if index.metadata is None else index.metadata.to_pydict()


def assert_consistent(loaded):
    """Lengths, types and distinct ids; every vector finds itself."""
    index, table = loaded
    n, vectors = len(index), index.vectors
    assert n > 0
    assert vectors.shape == (n, index.dim)
    assert vectors.dtype == np.float32
    assert len(set(index.ids.tolist())) == n == index.ids.size
    assert table is None or {len(values) for values in table.values()} == {n}
    assert isinstance(index.fingerprint, str | None)
    assert all(getattr(index, name) is not None for name in ("metric", "dim"))
    ids, scores = index.search(vectors, 1)
    assert np.isfinite(scores).all()
    assert (scores == 0).all() if index.metric == "euclidean" else np.isin(ids, index.ids).all()
    np.testing.assert_array_equal(index.vectors[index.rows(ids[:, 0])], vectors)


@every_folder
def test_an_index_whose_checksums_differ_is_refused_before_a_searcher_is_read(kind, saved, monkeypatch):
    for searcher in (search.Scann, search.Faiss):
        monkeypatch.setattr(searcher, "_load_searcher", lambda _, folder: pytest.fail(f"{folder} was read"))
    parts = {name.split("-")[0] for name in files_of(saved)}
    assert parts >= {"index.json", "SHA256SUMS", "ids", "metadata", "alive", "center"}
    assert assert_consistent_or_refused(saved, search.load) > 100


@pytest.mark.parametrize(
    "kind", ["exact", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("scann", "faiss"))]
)
def test_an_index_whose_checksums_fit_is_consistent_or_is_refused(kind, saved):
    names = {name for name in files_of(saved) if not name.startswith(("scann", "faiss"))}  # which C++ reads
    assert assert_consistent_or_refused(saved, read, assert_consistent, names=names) > 500


@pytest.fixture
def exact(tmp_path):
    """The folder of an exact index of two segments, and its manifest."""
    index = search.Exact(np.eye(8)[:, :3], metric="euclidean", metadata={"label": list("abcdefgh")})
    index.add(np.eye(3), range(8, 11), metadata={"label": list("ijk")})
    index.save(tmp_path)
    return tmp_path, json.loads((tmp_path / "index.json").read_text())


def write_manifest(folder, manifest):
    (folder / "index.json").write_text(json.dumps(manifest))
    write_checksums(folder)


def test_an_index_of_another_version_or_kind_says_so(exact):
    folder, manifest = exact
    with pytest.raises(ValueError, match=r"kind 'exact', expected 'scann'\. tfdml\.search\.load"):
        search.Scann.load(folder)
    write_manifest(folder, manifest | {"kind": "tree"})
    with pytest.raises(ValueError, match="kind 'tree', expected one of 'exact'"):
        search.load(folder)
    write_manifest(folder, manifest | {"format": "tfdml.search/4"})
    with pytest.raises(ValueError, match=r"of format 'tfdml\.search/4', expected 'tfdml\.search/5'\. Update tfdml"):
        search.load(folder)


@pytest.mark.parametrize("dim", [10**9, 10**13, 2**63, 10**4000])
def test_a_stated_dim_allocates_nothing(exact, dim):
    folder, manifest = exact
    write_manifest(folder, {**manifest, "dim": dim})
    with pytest.raises(ValueError, match=r"gallery-.*expected float32 of shape \(8, "):
        search.load(folder)


COLUMNS = [
    {"price": list("abc")},
    {"label": range(3)},
    {"label": list("abc"), "price": range(3)},
    {"label": list("ab")},
]


@pytest.mark.parametrize("columns", [None, *COLUMNS])
def test_segments_of_other_columns_do_not_fit_together(exact, columns):
    folder, manifest = exact
    if columns is None:
        del manifest["segments"][1]["metadata"]
    else:
        parquet.write_table(pyarrow.table(columns), folder / manifest["segments"][1]["metadata"])
    write_manifest(folder, manifest)
    with pytest.raises(ValueError, match="its files do not fit together"):
        search.load(folder)


def test_ids_of_two_kinds_and_segments_without_items_do_not_fit_together(exact):
    folder, manifest = exact
    first, second = manifest["segments"]
    np.save(folder / "alive.npy", np.zeros(8, bool))
    np.save(folder / "texts.npy", np.array(list("abc")))
    for segments in ([first | {"alive": "alive.npy"}], [first, second | {"ids": "texts.npy"}]):
        write_manifest(folder, manifest | {"segments": segments})
        with pytest.raises(ValueError, match="its files do not fit together"):
            search.load(folder)


@pytest.mark.parametrize("name", ["leaves", "leaves_to_search", "rescore"])
def test_a_number_beyond_those_of_scann_is_an_error_when_it_is_loaded(tmp_path, name):
    search.Scann(np.eye(3)).save(tmp_path)
    manifest = json.loads((tmp_path / "index.json").read_text())
    write_manifest(tmp_path, {**manifest, name: 2**31})
    with pytest.raises(ValueError, match=rf"index\.json \({name}\)"):
        search.load(tmp_path)


def test_a_file_that_scann_cannot_read_is_an_error_that_names_its_folder(tmp_path):
    search.Scann(np.eye(3)).save(tmp_path)
    manifest = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / manifest["segments"][0]["scann"] / "scann_config.pb").write_bytes(b"")
    write_manifest(tmp_path, manifest)
    with pytest.raises(ValueError, match=r"scann-.* is damaged"):
        search.load(tmp_path)


def test_a_searcher_of_another_size_is_refused(tmp_path, monkeypatch):
    search.Scann(np.eye(40)).save(tmp_path)
    monkeypatch.setattr(search.Scann, "_load_searcher", lambda *_: SimpleNamespace(size=lambda: 39))
    with pytest.raises(ValueError, match="do not fit together"):
        search.load(tmp_path)


def test_a_pickle_in_a_scann_folder_is_not_loaded(tmp_path):
    search.Scann(np.eye(40)).save(tmp_path)
    (next(tmp_path.glob("scann-*")) / "scann_docids.pkl").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(ValueError, match="Do not load it"):
        search.load(tmp_path)
