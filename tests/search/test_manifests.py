"""Manifests that other programs have written, with checksums that fit: each loads, or is a clear error."""

import hashlib
import json

import numpy as np
import pytest

from tfdml import search

VALUES = [None, True, -1, 0, 1.5, 10**30, float("nan"), "", "../x", "ids.npy", [], [1], {}, {"a": 1}, [{}]]


def signed(manifest):
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, indent=1)


def places(value, path=()):
    """The paths of all entries of nested dicts and lists."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from places(entry, (*path, key))


def changed(manifest, path, value):
    """A copy of a manifest with another value at a path; without the entry for `...`."""
    copy = json.loads(json.dumps(manifest))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


@pytest.fixture(scope="module", params=["exact", "scann"])
def saved(request, tmp_path_factory):
    """The folder of an index with two segments, removed rows and metadata, and its manifest."""
    folder = tmp_path_factory.mktemp("manifests") / "index"
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    make = {"exact": search.Exact, "scann": search.Scann}[request.param]
    index = make(x[:8], metric="euclidean", metadata={"label": list("abcdefgh")})
    index.add(x[8:], range(8, 12), metadata={"label": list("ijkl")})
    index.remove([1])
    index.save(folder)
    return folder, json.loads((folder / "index.json").read_text())


def is_refused(folder):
    """Whether an index does not load, for a reason that names it."""
    try:
        search.load(folder)
    except (ValueError, FileNotFoundError) as error:
        return str(folder) in str(error) or "index" in str(error)
    return False


def test_an_entry_of_any_other_value_loads_or_is_an_error_that_names_the_file(saved):
    folder, manifest = saved
    whole, refused = (folder / "index.json").read_text(), 0
    for path in places(manifest):
        if path[0] in ("files", "sha256") and len(path) > 2:  # sizes and sums of files: compared with the files
            continue
        for value in [*VALUES, ...]:
            (folder / "index.json").write_text(signed(changed(manifest, path, value)))
            refused += is_refused(folder)
    (folder / "index.json").write_text(whole)
    assert refused > 200
    assert len(search.load(folder)) == 11


@pytest.mark.parametrize("name", ["/etc/passwd", "../other.npy", "a/../../b", ".", ""])
def test_a_name_that_leads_out_of_the_folder_is_refused_before_it_is_opened(saved, name, monkeypatch):
    folder, manifest = saved
    whole = (folder / "index.json").read_text()
    entry = next(iter(manifest["files"].values()))
    (folder / "index.json").write_text(signed(changed(manifest, ("files", name), entry)))
    with pytest.raises(ValueError, match=r"index\.json .* is damaged"):
        search.load(folder)
    (folder / "index.json").write_text(whole)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{", "[]", '"a"', "\xff", ""])
def test_a_text_that_is_no_manifest_is_damaged(saved, text):
    folder, _ = saved
    whole = (folder / "index.json").read_text()
    (folder / "index.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"index\.json .* is damaged"):
        search.load(folder)
    with pytest.raises(FileExistsError, match="not a file of an earlier version"):
        search.Exact(np.eye(3)).save(folder)
    (folder / "index.json").write_text(whole)
