"""Manifests that other programs have written, with checksums that fit: each loads, or is a clear error."""

import json

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tests.json_entries import changed, paths, refusal
from tests.search.test_search import KINDS, build
from tfdml import search
from tfdml._core.checksums import write_checksums

VALUES = [None, True, -1, 0, 1.5, 10**30, float("nan"), "", "../x", "ids.npy", [], [1], {}, {"a": 1}, [{}]]


def write_manifest(folder, manifest):
    """Write a manifest, and the checksums of all files."""
    (folder / "index.json").write_text(json.dumps(manifest))
    write_checksums(folder)


def save(kind, folder):
    """Save an index with two segments, removed rows and metadata: its folder and its manifest."""
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    index = build(kind, x[:8], metric="euclidean", metadata={"label": list("abcdefgh")})
    index.add(x[8:], range(8, 12), metadata={"label": list("ijkl")})
    index.remove([1])
    index.save(folder)
    return folder, json.loads((folder / "index.json").read_text())


@pytest.fixture(scope="module", params=[kind for kind in KINDS if kind != "lance"])  # which has a table of its own form
def saved(request, tmp_path_factory):
    return save(request.param, tmp_path_factory.mktemp("manifests") / "index")


@pytest.fixture
def index(tmp_path):
    return save("exact", tmp_path)


def is_refused(folder):
    """Whether an index does not load, for a reason that names it."""
    try:
        search.load(folder)
    except (ValueError, FileNotFoundError) as error:
        return str(folder) in str(error) or "index" in str(error)
    return False


def test_an_entry_of_any_other_value_loads_or_is_an_error_that_names_the_file(saved):
    folder, manifest = saved
    refused = 0
    for path in paths(manifest):
        for value in [*VALUES, ...]:
            write_manifest(folder, changed(manifest, path, value))
            refused += is_refused(folder)
    write_manifest(folder, manifest)
    assert refused > 200
    assert len(search.load(folder)) == 11


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{", "[]", '"a"', "\xff", ""])
def test_a_text_that_is_no_manifest_is_damaged(saved, text):
    folder, manifest = saved
    (folder / "index.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"index\.json .* is damaged"):
        search.load(folder)
    with pytest.raises(FileExistsError, match="not a file of an earlier version"):
        search.Exact(np.eye(3)).save(folder)
    write_manifest(folder, manifest)


def header(text):
    """The header of a `.npy` file."""
    return b"\x93NUMPY\x01\x00" + np.uint16(len(text) + 1).tobytes() + text.encode() + b"\n"


def header_of_shape(shape):
    return header(f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}")


ARRAYS = {
    "nothing": b"",
    "a pickle": b"\x80\x04K\x01.",
    "a zip file": b"PK\x05\x06" + bytes(18),
    "no shape": header("(" * 9000),
    "a deep shape": header_of_shape(f"({'-' * 8000}8,)"),
    "a shape of 7 TiB": header_of_shape(f"({10**12},)"),
    "a shape beyond int64": header_of_shape(f"({10**25},)"),
    "a negative shape": header_of_shape("(-1,)") + bytes(64),
    "a shape of booleans": header_of_shape("(True,)") + bytes(64),
    "no rows": header_of_shape("(0,)"),
    "no text": header("{'descr': '<U2', 'fortran_order': False, 'shape': (8,), }") + b"\xff" * 64,
}


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
def test_a_file_that_is_no_array_of_an_index_is_an_error_that_names_it(index, content):
    folder, manifest = index
    for part in ("ids", "gallery", "alive", "center"):
        path = folder / manifest["segments"][0][part]
        whole = path.read_bytes()
        path.write_bytes(content)
        write_manifest(folder, manifest)
        with pytest.raises(ValueError, match=path.name):
            search.load(folder)
        path.write_bytes(whole)


FORMAT = r"an index of format 'tfdml\.search/4', expected 'tfdml\.search/5'\. Update tfdml"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["kind"], "tree", "kind 'tree'"),
        (["format"], "tfdml.search/4", FORMAT),
        (["format"], 5, "an index of format 5"),
        (["kind"], ["exact"], r"index\.json \(kind\)"),
        (["metric"], "manhattan", r"index\.json \(metric\)"),
        (["metric"], ["dot"], r"index\.json \(metric\)"),
        (["dim"], 2, r"shape \(8, 4\), expected float32 of shape \(8, 3\)"),
        (["dim"], True, r"index\.json \(dim\)"),
        *(
            (["segments", 0, "ids"], name, r"index\.json \(segments\) .* is damaged")
            for name in ("/etc/passwd", "../other.npy", "a/../../b", ".", "")
        ),
    ],
)
def test_manifests_of_other_kinds_formats_values_or_names_are_refused(index, path, value, message):
    folder, manifest = index
    write_manifest(folder, changed(manifest, path, value))
    with pytest.raises(ValueError, match=message):
        search.load(folder)


def test_an_index_is_of_its_own_kind(index):
    with pytest.raises(ValueError, match=r"kind 'exact', expected 'scann'\. tfdml\.search\.load"):
        search.Scann.load(index[0])


@pytest.mark.parametrize(
    ("component", "change", "message"),
    [
        ("gallery", lambda a: a[:, :3], r"shape \(8, 3\), expected"),
        ("gallery", lambda a: a[:-1], r"shape \(7, 4\), expected"),
        ("gallery", lambda a: a.astype(np.float64), "float64"),
        ("gallery", lambda a: np.where(a == a[3, 2], np.float32(np.nan), a), "not finite"),
        ("gallery", lambda a: np.float32(1.001) * a, "lengths are wrong"),
        ("ids", lambda a: a[:, None], r"shape \(8, 1\), expected"),
        ("ids", lambda a: a // 2, "repeat"),
        ("ids", lambda a: a[:0], "is damaged"),
        ("ids", lambda a: a.astype(np.int32), "int32"),
        ("center", lambda a: np.pad(a, (0, 1)), r"shape \(4,\), expected"),
    ],
)
def test_an_array_of_another_form_is_refused_though_its_checksum_fits(index, component, change, message):
    folder, manifest = index
    path = folder / manifest["segments"][0][component]
    np.save(path, change(np.load(path)))
    write_manifest(folder, manifest)
    with pytest.raises(ValueError, match=message):
        search.load(folder)


@pytest.mark.parametrize("dim", [10**9, 10**13, 2**63, 10**4000])
def test_a_stated_dim_allocates_nothing(index, dim):
    folder, manifest = index
    manifest["segments"] = [{**segment} for segment in manifest["segments"]]
    for segment in manifest["segments"]:
        segment.pop("center", None)
    write_manifest(folder, {**manifest, "dim": dim})
    with pytest.raises(ValueError, match=r"gallery-.*expected float32 of shape \(8, "):
        search.load(folder)


def test_segments_that_do_not_fit_together_are_an_error(index):
    folder, manifest = index
    first, second = manifest["segments"]
    for path, array in [(second["ids"], np.array(list("abcd"))), (first["alive"], np.zeros(8, bool))]:
        whole = (folder / path).read_bytes()
        np.save(folder / path, array)
        segments = [first] if path == first["alive"] else [first, second]
        write_manifest(folder, {**manifest, "segments": segments})
        with pytest.raises(ValueError, match="its files do not fit together"):
            search.load(folder)
        (folder / path).write_bytes(whole)
    write_manifest(folder, {**manifest, "segments": [first, {**second, "metadata": first["metadata"]}]})
    with pytest.raises(ValueError, match="its files do not fit together"):
        search.load(folder)
    del second["metadata"]
    write_manifest(folder, {**manifest, "segments": [first, second]})
    with pytest.raises(ValueError, match="its files do not fit together"):
        search.load(folder)


COLUMNS = {
    "another name": {"price": list("abcd")},
    "another type": {"label": range(4)},
    "one more": {"label": list("abcd"), "price": range(4)},
    "other rows": {"label": list("abc")},
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_metadata_of_other_columns_is_an_error_when_it_is_loaded(index, columns):
    folder, manifest = index
    parquet.write_table(pyarrow.table(columns), folder / manifest["segments"][1]["metadata"])
    write_manifest(folder, manifest)
    with pytest.raises(ValueError, match="its files do not fit together"):
        search.load(folder)


def test_metadata_with_a_column_twice_is_an_error_that_names_the_file(index):
    folder, manifest = index
    name = manifest["segments"][1]["metadata"]
    parquet.write_table(pyarrow.table([pyarrow.array(list("abcd"))] * 2, names=["label", "label"]), folder / name)
    write_manifest(folder, manifest)
    with pytest.raises(ValueError, match=name):
        search.load(folder)


def test_every_damage_of_a_metadata_file_loads_or_is_an_error_that_names_it(index):
    folder, manifest = index
    path = folder / manifest["segments"][1]["metadata"]
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        write_manifest(folder, manifest)
        message = refusal(lambda: search.load(folder).metadata.to_pydict())
        assert path.name in message or "do not fit together" in message or not message
        refused += bool(message)
    assert refused > 50


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
