"""`tfdml index`: an index changes, with its thumbnails, and files of the same name are not taken for each other."""

import datetime
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from tests.cli.test_commands import Blocks, command_of, decode
from tests.worlds import write_png
from tfdml import datasets, models, search
from tfdml._core.atomic import only_writer
from tfdml._core.checksums import FILE_TYPES, state_of
from tfdml.cli.references import Reference
from tfdml.embedding.files import metadata_of, rewrite
from tfdml.search.index.file_items import value_of
from tfdml.search.index.shards import write_manifest
from tfdml.visualize import Thumbnails, write_thumbnails

PAGE = Path(__file__).parents[2] / "docs" / "second-day.md"


def photo(path, level):
    """Write a photograph of a gray level."""
    write_png(path, np.random.default_rng(level).integers(level, level + 20, (10, 8, 1), "uint8"))


def folder(root="photos"):
    return datasets.folder(root, load=decode)


@pytest.fixture
def shop(tmp_path, monkeypatch, capsys):
    """Function that runs a command in a folder with six photographs of three products, and their run."""
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        photo(f"photos/{'abc'[number // 2]}/{number}.png", 30 * number)
    Path("run").mkdir()
    Path("run/settings.toml").write_text('format = "tfdml.training/1"\n')
    photos, items = folder(), datasets.items(folder())
    index = search.Exact(models.embed(Blocks(), photos), metadata=items["metadata"], model="blocks")
    index.save("run/index")
    versions = items["metadata"]["_checksum"].to_pylist()
    write_thumbnails("run/thumbnails.npz", index.ids, photos, versions=versions)
    monkeypatch.setattr(Reference, "model", lambda self: (Blocks(), decode))
    return command_of(capsys)


class New(Blocks):
    """The same numbers by another model."""

    fingerprint = "new"


@pytest.fixture
def renewed(shop, monkeypatch):
    """The same with a new model, `model`."""
    monkeypatch.setattr(Reference, "model", lambda self: (New() if self.path == "model" else Blocks(), decode))
    Path("model").mkdir()
    Path("model/saved_model.pb").touch()
    return shop


def changed(run, command):
    """The counts of a command, its exit code and its messages."""
    code, printed, errors = run(f"index {command} --json")
    return (json.loads(printed) if printed else None), code, errors


def counts(record):
    return {name: record[name] for name in ("added", "updated", "moved", "unchanged")} | {
        "skipped": [each["name"] for each in record["skipped"]]
    }


NONE = {"added": 0, "updated": 0, "moved": 0, "unchanged": 6, "skipped": []}


def by_path(path="run/index"):
    index = search.load(path)
    items = zip(index.ids.tolist(), index.vectors, strict=True)
    return dict(zip(index.metadata["path"].to_pylist(), items, strict=True))


def test_what_is_new_is_added_what_has_changed_is_updated_and_the_rest_stays(shop):
    before = by_path()
    record, code, _ = changed(shop, "add run photos")
    assert (counts(record), code, record["items"]) == (NONE, 0, 6)
    photo("photos/a/1.png", 200)
    photo("photos/d/9.png", 220)
    Path("photos/d/broken.png").write_bytes(b"no image")
    expected = NONE | {"added": 1, "updated": 1, "unchanged": 5, "skipped": ["photos/d/broken.png"]}
    record, code, errors = changed(shop, "add run photos --dry-run")
    assert (counts(record), code, record["items"]) == (expected, 1, 7)
    assert by_path().keys() == before.keys()
    record, code, errors = changed(shop, "add run photos")
    assert (counts(record), code, record["items"]) == (expected, 1, 7)
    assert "tfdml: skipped photos/d/broken.png: 5 bytes that are not an image" in errors
    after = by_path()
    vectors = models.embed(
        Blocks(), folder().take([row for row, path in enumerate(folder().paths) if "broken" not in path])
    )
    paths = [path for path in folder().paths if "broken" not in path]
    for path, vector in zip(paths, search.Exact(vectors).vectors, strict=True):
        np.testing.assert_allclose(after[path][1], vector, atol=1e-6)
    assert {path: id for path, (id, _) in after.items() if path in before} == {p: id for p, (id, _) in before.items()}
    thumbnails, index = Thumbnails.load("run/thumbnails.npz"), search.load("run/index")
    assert set(thumbnails) == set(index.ids.tolist())
    known = dict(zip(index.ids.tolist(), index.metadata["_checksum"].to_pylist(), strict=True))
    assert thumbnails.versions == known
    assert search.load("run/index").metadata["class"].to_pylist()[-1] == "d"
    assert not list(Path("run").glob(".lock*"))


def test_new_items_have_the_thumbnails_that_their_files_give(shop, monkeypatch):
    view = datasets.Preprocessing(size=4, channels=1)
    monkeypatch.setattr(Reference, "model", lambda self: (Blocks(), view))
    photo("photos/d/9.png", 220)
    assert changed(shop, "add run photos")[0]["added"] == 1
    new = replace(folder(), load=view).take([6])
    expected = Thumbnails.load(write_thumbnails("again.npz", [0], new))[0]
    assert Thumbnails.load("run/thumbnails.npz")[by_path()["photos/d/9.png"][0]] == expected


def test_files_that_cannot_be_read_alone_hold_nothing_up(shop):
    Path("photos/a/broken.png").write_bytes(b"no image")
    expected = NONE | {"skipped": ["photos/a/broken.png"]}
    record, code, _ = changed(shop, "add run photos")
    assert (counts(record), code) == (expected, 1)
    os.rename("photos", "shelf")
    record, code, _ = changed(shop, "add run shelf")
    expected = {"added": 0, "updated": 0, "moved": 6, "unchanged": 0, "skipped": ["shelf/a/broken.png"]}
    assert (counts(record), code) == (expected, 1)
    assert sorted(by_path()) == sorted(path for path in folder("shelf").paths if "broken" not in path)


@pytest.mark.parametrize(
    ("choice", "gone"),
    [
        ("0 5", [0, 5]),
        ("--path photos/b", [2, 3]),
        ("--path photos/a/1.png --path photos/c", [1, 4, 5]),
        ("--where class=c", [4, 5]),
    ],
)
def test_items_are_removed_with_their_thumbnails_and_added_again(shop, choice, gone):
    before = by_path()
    record, code, _ = changed(shop, f"remove run/index {choice} --dry-run")
    assert (record["removed"], record["items"], len(by_path())) == (len(gone), 6 - len(gone), 6)
    record, code, _ = changed(shop, f"remove run/index {choice}")
    assert (record["removed"], record["items"], code) == (len(gone), 6 - len(gone), 0)
    kept = {id for id in range(6) if id not in gone}
    assert set(search.load("run/index").ids.tolist()) == set(Thumbnails.load("run/thumbnails.npz")) == kept
    record, *_ = changed(shop, "add run photos")
    assert counts(record) == NONE | {"added": len(gone), "unchanged": len(kept)}
    after = by_path()
    assert after.keys() == before.keys()
    assert all(after[path][0] not in gone for path in after), "an id is never given to another item"
    np.testing.assert_array_equal([after[path][1] for path in before], [vector for _, vector in before.values()])


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("remove run --where color=red", "column 'color', expected one of class, path.\n"),
        ("remove run 0 7", "1 ids that are not in the index, such as 7"),
        ("remove run seven", "the id ['seven'], expected whole numbers"),
        ("remove run --path photos/z", "the path 'photos/z', expected a file of the index"),
        ("remove run --path phot", "the path 'phot', expected"),
        ("remove run --where class=z", "values that no item has"),
        ("remove run", "0 of them, expected one"),
        ("remove run 0 --path photos", "2 of them"),
        ("remove run --path photos", "all 6 items, expected one at least to keep"),
        ("set run color=red 0", "'color', expected COLUMN=VALUE with one of class, path"),
        ("set run _checksum=red 0", "'_checksum', expected"),
        ("set run path=red 0", "'path', expected"),
        ("set run class 0", "'class', expected COLUMN=VALUE with one of class, path"),
        ("set run class=mug --table new.csv", "'class', expected a COLUMN alone, as --table has its values"),
        ("set run class 0 --table new.csv", "--table beside ID, --path or --where, expected one of them"),
        ("set run class --table gone.csv", "1 not a file, first photos/a/99.png"),
        ("add gone photos", "INDEX"),
        ("add run/index gone", "SET='gone': Received no such file or folder"),
        ("add plain photos", "an index without a column 'path'"),
        ("add other photos", "images of model blocks (fingerprint blocks), expected those of model other"),
        ("add other2 photos", "--model: Received no model, expected the MODEL of the index"),
    ],
)
def test_what_is_refused_is_said_and_nothing_is_written(shop, command, reason):
    search.Exact(np.eye(4), model="blocks").save("plain")
    for name in ("other", "other2"):
        search.Exact(np.eye(4), metadata={"path": list("abcd")}, model="other").save(name)
    Path("new.csv").write_text("path,label\nphotos/a/0.png,mug\n")
    Path("gone.csv").write_text("path,label\nphotos/a/99.png,mug\n")
    command += {"other": " --model run", "plain": " --model run"}.get(command.split()[1], "")
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}
    record, code, errors = changed(shop, command)
    assert (record, code) == (None, 2)
    assert reason in errors
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()} == before


def test_a_label_is_set_and_items_are_listed_without_what_is_the_owners(shop):
    assert changed(shop, "set run class=mug 0 1")[0]["set"] == 2
    record, code, _ = changed(shop, "set run class=mug --path photos/a")
    assert (record["set"], record["unchanged"], code) == (0, 2, 0)
    code, printed, _ = shop("index list run --where class=mug --json")
    paths = [f"photos/a/{number}.png" for number in (0, 1)]
    assert json.loads(printed) == [{"id": id, "metadata": {"class": "mug", "path": paths[id]}} for id in (0, 1)]
    assert changed(shop, "set run class= 5")[0]["set"] == 1
    lines = shop("index list run")[1].strip("\n").split("\n")
    assert len(lines) == 6
    assert [line.split() for line in lines][-1] == ["5", "-", "photos/c/5.png"]
    assert shop("index list run --where class=")[1].split() == ["5", "-", "photos/c/5.png"]
    photo("photos/c/5.png", 222)
    assert changed(shop, "add run photos")[0]["updated"] == 1
    assert shop("index list run 5")[1].split() == ["5", "c", "photos/c/5.png"], "a label where there was none"
    assert changed(shop, "set run _root=/elsewhere --path photos")[0]["set"] == 6


def test_labels_of_a_table_are_set_by_their_paths(shop):
    Path("new.csv").write_text("path,label\nphotos/a/0.png,mug\nphotos/c/5.png,cup\nphotos/b/2.png,\n")
    assert changed(shop, "set run class --table new.csv --dry-run")[0]["set"] == 2
    record, code, _ = changed(shop, "set run class --table new.csv")
    assert (record["set"], record["unchanged"], record["items"], code) == (2, 0, 6, 0)
    table = search.load("run/index").metadata
    labels = dict(zip(table["path"].to_pylist(), table["class"].to_pylist(), strict=True))
    assert [labels[path] for path in sorted(labels)] == ["mug", "a", "b", "b", "c", "cup"]
    assert changed(shop, "set run class --table new.csv")[0]["unchanged"] == 2


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("12", pyarrow.int64(), 12),
        ("007", pyarrow.int64(), ValueError),
        ("1.5", pyarrow.int64(), ValueError),
        ("300", pyarrow.int8(), ValueError),
        ("0.1", pyarrow.float64(), 0.1),
        ("0.1", pyarrow.float32(), ValueError),
        ("0.5", pyarrow.float32(), 0.5),
        ("007", pyarrow.string(), "007"),
        ("true", pyarrow.bool_(), True),
        ("yes", pyarrow.bool_(), ValueError),
        ("", pyarrow.int64(), None),
        ("2024-01-02", pyarrow.date32(), datetime.date(2024, 1, 2)),
        ("[1]", pyarrow.list_(pyarrow.int64()), ValueError),
    ],
)
def test_a_value_is_kept_as_it_came_or_refused(text, kind, expected):
    if expected is ValueError:
        with pytest.raises(ValueError, match=r"Received .*, expected a value of type"):
            value_of(text, kind)
    else:
        value = value_of(text, kind)
        assert (value.as_py(), value.type) == (expected, kind)


def by_python_add(index):
    photos = folder("more")
    index.add(models.embed(Blocks(), photos), **datasets.items(photos))


def by_python_remove(index):
    index.remove(index.ids[index.mask({"class": "c"})])


def by_python_set(index):
    ids = index.ids[index.mask({"class": "a"})]
    index.update(ids, metadata=index.metadata.take(index.rows(ids)).to_pydict() | {"class": ["mug"] * len(ids)})


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("add run more", by_python_add),
        ("remove run --where class=c", by_python_remove),
        ("set run class=mug 0 1", by_python_set),
    ],
)
def test_lines_of_python_change_an_index_as_the_command_does(shop, command, change):
    for number in (7, 8):
        photo(f"more/e/{number}.png", 20 * number)
    index = search.load("run/index")
    change(index)
    assert changed(shop, command)[1] == 0
    found = search.load("run/index")
    assert found.ids.tolist() == index.ids.tolist()
    assert found.metadata.to_pydict() == index.metadata.to_pydict()
    np.testing.assert_allclose(found.vectors, index.vectors, atol=1e-6)
    listed = [item["id"] for item in json.loads(shop("index list run --where class=b --json")[1])]
    assert listed == index.ids[index.mask({"class": "b"})].tolist()


def test_photographs_without_a_label_are_items_whose_class_is_null(shop):
    photos = folder()
    object.__setattr__(photos, "labels", np.array([-1, *photos.labels[1:]]))
    assert datasets.items(photos)["metadata"]["class"].to_pylist() == [None, *"abbcc"]


def test_an_index_follows_its_photographs_and_takes_no_others_of_the_same_names(shop):
    shutil.copytree("photos", "elsewhere/photos")
    for number in range(6):
        photo(f"elsewhere/photos/{'abc'[number // 2]}/{number}.png", 30 * number + 7)
    record, *_ = changed(shop, "add run elsewhere/photos --dry-run")
    assert counts(record) == NONE | {"added": 6, "unchanged": 0}, "other files are other items"
    Path("moved").mkdir()
    shutil.move("photos", "moved/photos")
    absolute = os.path.abspath("moved/photos")
    record, *_ = changed(shop, f"add run {absolute}")
    assert counts(record) == NONE | {"moved": 6, "unchanged": 0}
    assert set(search.load("run/index").metadata["_root"].to_pylist()) == {os.path.abspath("moved")}
    assert counts(changed(shop, f"add run {absolute}")[0]) == NONE


def test_a_label_that_was_corrected_stays_when_its_folder_moves_and_a_file_takes_that_of_another_folder(shop):
    changed(shop, "set run class=mug --path photos/a/0.png")
    changed(shop, "set run class= --path photos/b/2.png")
    shutil.move("photos", "shelf")
    Path("shelf/d").mkdir()
    shutil.move("shelf/c/5.png", "shelf/d/5.png")
    assert changed(shop, "add run shelf")[0]["moved"] == 6
    table = search.load("run/index").metadata
    labels = dict(zip(map(os.path.basename, table["path"].to_pylist()), table["class"].to_pylist(), strict=True))
    assert [labels[name] for name in sorted(labels)] == ["mug", "a", None, "b", "c", "d"]


def test_a_migration_elsewhere_embeds_no_other_photographs_of_the_same_names(renewed):
    before = by_path()
    shutil.move("photos", "kept")
    for number in range(6):
        photo(f"photos/{'abc'[number // 2]}/{number}.png", 30 * number + 7)
    code, _, errors = renewed("migrate run/index --to model")
    assert code == 1
    assert "6 items, none of which can be embedded" in errors
    assert f"{Path('photos/a/0.png').absolute()} cannot be embedded: another file than the one" in errors
    assert search.load("run/index").fingerprint == "blocks"
    shutil.rmtree("photos")
    errors = renewed("migrate run/index --to model")[2]
    assert f"{Path('photos/a/0.png').absolute()} cannot be embedded: no such file" in errors
    assert renewed("migrate run/index --to model --root nowhere")[0] == 2
    code, printed, _ = renewed("migrate run/index --to model --root kept")
    assert (code, printed) == (0, "6 items of run/index embedded again, 0 failed\n")
    after = by_path()
    assert search.load("run/index").fingerprint == "new"
    for path in before:
        np.testing.assert_array_equal(after[path][1], before[path][1])


def test_two_writers_lose_no_item(shop):
    with only_writer("run/index", "INDEX"):
        record, code, errors = changed(shop, "remove run 0")
        assert (record, code) == (None, 1)
        assert "INDEX='run/index', which process" in errors
    assert len(search.load("run/index")) == 6


def test_the_second_day_goes_as_its_page_says(renewed):
    for old, name in zip("abc", ("mug", "tray", "vase"), strict=True):
        Path(f"photos/{old}").rename(f"photos/{name}")
    assert renewed("index add run photos")[0] == 0
    text = "".join(re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL))
    for number, part in enumerate(text.split("$ ")[1:]):
        command, _, output = part.partition("\n")
        if number == 1:
            shutil.rmtree("photos/vase")
            for level in (7, 8, 9):
                photo(f"photos/cup/{level}.png", 20 * level)
        if command.startswith("mv "):
            os.rename(*command.split()[1:])
        else:
            code, printed, errors = renewed(command.removeprefix("tfdml "))
            assert (code, printed) == (0, output), errors


@pytest.mark.parametrize("out", ["out", "out.parquet"])
def test_what_tfdml_embed_wrote_is_changed_as_an_index_is(shop, out):
    assert shop(f"embed photos {out} --model run")[0] == 0
    whole = models.read_embeddings(out)
    assert changed(shop, f"remove {out} 1 4")[0]["removed"] == 2
    assert changed(shop, f"set {out} label=mug 0")[0]["set"] == 1
    stored = models.read_embeddings(out)
    assert (stored.rows.tolist(), stored.fingerprint) == ([0, 2, 3, 5], whole.fingerprint)
    np.testing.assert_array_equal(stored.embeddings, whole.embeddings[[0, 2, 3, 5]])
    assert [stored.class_names[label] for label in stored.labels] == ["mug", "b", "b", "c"]
    photo("photos/d/7.png", 99)
    photo("photos/c/5.png", 98)
    record, code, _ = changed(shop, f"add {out} photos --model run")
    assert (counts(record), code) == (NONE | {"added": 3, "updated": 1, "unchanged": 3}, 0)
    assert counts(changed(shop, f"add {out} photos --model run")[0]) == NONE | {"unchanged": 7}
    stored = models.read_embeddings(out)
    assert stored.files == {name: Reference(out).index().metadata[name].to_pylist() for name in FILE_TYPES}
    states = [state_of(path) for path in stored.paths]
    assert list(zip(stored.files["_size"], stored.files["_checksum"], strict=True)) == states
    assert sorted(stored.paths) == sorted(folder().paths)
    expected = dict(zip(folder().paths, models.embed(Blocks(), folder()), strict=True))
    for path, vector in zip(stored.paths, stored.embeddings, strict=True):
        np.testing.assert_allclose(vector, expected[path], atol=1e-6)
    assert shop(f"index list {out} --where label=d")[1].endswith("d  photos/d/7.png\n")
    Path("shelf").mkdir()
    shutil.move("photos", "shelf/photos")
    assert counts(changed(shop, f"add {out} shelf/photos --model run")[0]) == NONE | {"moved": 7, "unchanged": 0}


@pytest.mark.parametrize("kind", [search.Exact, search.Faiss, search.Scann])
def test_an_index_of_shards_is_changed_as_one_index(shop, kind):
    photos = folder()
    for number, rows in enumerate(([0, 1, 2, 3], [4, 5])):
        models.write_embeddings(Blocks(), photos.take(rows), f"part-{number}.parquet")
        stored = models.read_embeddings(f"part-{number}.parquet")
        index = kind(stored.embeddings, np.array(rows), metadata=metadata_of(stored), model=stored, metric="dot")
        index.save(f"shards/part-{number}")
        Path(f"shards/part-{number}.json").write_text("{}")
    Path("shards/run.json").write_text("{}")
    write_manifest(Path("shards"), {}, [{"name": f"part-{n}", "vectors": size} for n, size in enumerate((4, 2))])
    whole = search.load("shards")
    Path("shards/own.txt").write_text("mine")
    assert "a folder with 'own.txt', which is not" in shop("index remove shards 0")[2]
    Path("shards/own.txt").unlink()
    assert len(search.load("shards")) == 6
    assert shop("index list shards --where label=c")[1].splitlines() == [
        "       4  c  photos/c/4.png",
        "       5  c  photos/c/5.png",
    ]
    assert counts(changed(shop, "add shards photos --model run")[0]) == NONE
    assert sorted(Path("shards").iterdir())[-1] == Path("shards/shards.json"), "nothing was written"
    assert changed(shop, "remove shards --path photos/b/2.png")[0]["removed"] == 1
    assert changed(shop, "set shards label=mug 5")[0]["set"] == 1
    photo("photos/d/7.png", 99)
    assert counts(changed(shop, "add shards photos --model run")[0]) == NONE | {"added": 2, "unchanged": 5}
    index = search.load("shards")
    assert (type(index), len(index)) == (kind, 7)
    assert not list(Path("shards").glob("part-*"))
    labels = dict(zip(index.metadata["path"].to_pylist(), index.metadata["label"].to_pylist(), strict=True))
    assert (labels["photos/c/5.png"], labels["photos/d/7.png"]) == ("mug", "d")
    expected = search.Exact(index.vectors, index.ids, metric="dot").search(whole.vectors, 7)
    np.testing.assert_array_equal(index.search(whole.vectors, 7)[0], expected[0])


def test_an_index_of_shards_is_migrated_to_one_index(renewed):
    for number in range(2):
        photos = folder().take(range(3 * number, 3 * number + 3))
        index = search.Exact(models.embed(Blocks(), photos), **datasets.items(photos), model="blocks")
        index.save(f"shards/part-{number}")
    write_manifest(Path("shards"), {}, [{"name": f"part-{number}", "vectors": 3} for number in range(2)])
    before = search.load("shards")
    assert renewed("migrate shards --to model")[:2] == (0, "6 items of shards embedded again, 0 failed\n")
    after = search.load("shards", model="new")
    assert sorted(after.ids) == sorted(before.ids)
    np.testing.assert_array_equal(after.vectors[after.rows(before.ids)], before.vectors)
    with pytest.raises(ValueError, match="whose index of the model new has replaced the one that was read"):
        before.save("shards")


@pytest.mark.parametrize("out", ["out", "out.parquet"])
def test_embeddings_of_an_earlier_version_learn_their_files(shop, out):
    models.write_embeddings(Blocks(), folder(), out)
    rewrite(out, replace(models.read_embeddings(out), files={}))
    assert models.read_embeddings(out).files == {}
    assert counts(changed(shop, f"add {out} photos --model run")[0]) == NONE | {"updated": 6, "unchanged": 0}
    assert counts(changed(shop, f"add {out} photos --model run")[0]) == NONE
