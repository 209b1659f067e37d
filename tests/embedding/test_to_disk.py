"""Embeddings of a set on disk: their form, what is left out, and runs that were stopped."""

import os
from dataclasses import replace

import numpy as np
import pyarrow
import pytest
import tensorflow as tf
from pyarrow import parquet

from tests.damage import flip
from tests.worlds import Pixels, write_png
from tfdml import models
from tfdml.datasets import LabeledSet, Preprocessing, table

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 6, 5, 3), np.uint8)
VIEW = Preprocessing(size=4)


def decode(path):
    return tf.ensure_shape(tf.io.decode_png(tf.io.read_file(path)), (6, 5, 3))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """40 files of 4 classes."""
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / f"{'abcd'[row % 4]}/{row}.png" for row in range(40)]
    for path, pixels in zip(paths, PIXELS, strict=True):
        write_png(path, pixels)
    names = ("d, the last", "c", "b", "a")
    return LabeledSet(paths=np.array(paths, str), labels=3 - np.arange(40) % 4, class_names=names, load=decode)


@pytest.fixture
def small_blocks(monkeypatch):
    """Two batches per part."""
    monkeypatch.setattr("tfdml.embedding.in_memory._BATCHES_PER_BLOCK", 2)


@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_embeddings_come_back_with_rows_paths_and_labels(name, files, small_blocks, tmp_path):
    assert models.write_embeddings(Pixels(), files, tmp_path / name, batch_size=7) == ()
    found = models.read_embeddings(tmp_path / name)
    np.testing.assert_array_equal(found.embeddings, files.examples().reshape(40, -1))
    assert found.embeddings.dtype == np.float32
    assert isinstance(found.embeddings.base, np.memmap) == (name == "out")
    assert found.rows.tolist() == list(range(40))
    assert len(found) == 40
    assert found.paths.tolist() == files.paths.tolist()
    assert found.class_names == ("a", "b", "c", "d, the last")
    assert [found.class_names[label] for label in found.labels] == [files.class_names[label] for label in files.labels]
    assert found.skipped == ()
    assert [place.name for place in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_boxes_come_back_where_they_were_embedded(name, files, small_blocks, tmp_path):
    boxes = np.random.default_rng(1).uniform(0, 2, (40, 4)).cumsum(axis=1)[:, [0, 1, 2, 3]] / 3 + [0, 0, 1, 1]
    of_boxes = replace(files, load=replace(VIEW, boxes=True), boxes=boxes)
    for data in (of_boxes, replace(of_boxes, load=decode), of_boxes):  # each replaces the earlier one
        models.write_embeddings(Pixels(), data, tmp_path / name, batch_size=7)
        found = models.read_embeddings(tmp_path / name)
        if data is of_boxes:
            np.testing.assert_array_equal(found.boxes, boxes)
            np.testing.assert_array_equal(found.embeddings, data.examples().reshape(40, -1))
        else:
            assert found.boxes is None


@pytest.mark.parametrize("name", ["out/examples.csv", "out.parquet"])
def test_the_files_are_tables_of_a_set(name, files, tmp_path):
    models.write_embeddings(Pixels(), files, tmp_path / name.split("/")[0])
    again = table(tmp_path / name, root="/", load=VIEW)
    assert again.paths.tolist() == files.paths.tolist()


def test_no_cell_of_the_table_is_a_formula_and_all_are_read_as_they_were(tmp_path):
    names = ("'=quoted", "-1", '=HYPERLINK("http://a.example")', "@class", "plain")
    paths = np.array([f"{name[0]}{row}.png" for row, name in enumerate(names)])
    part = LabeledSet(paths=paths, labels=np.arange(5), class_names=names, load=lambda path: PIXELS[0])
    models.write_embeddings(Pixels(), part, tmp_path / "out")
    text = (tmp_path / "out" / "examples.csv").read_text()
    assert [line for line in text.splitlines()[1:] if any(f",{first}" in line for first in "=+-@")] == []
    stored = models.read_embeddings(tmp_path / "out")
    assert stored.paths.tolist() == paths.tolist()
    assert [stored.class_names[label] for label in stored.labels] == list(names)
    for path in paths:
        (tmp_path / path).write_bytes(b"")
    again = table(tmp_path / "out" / "examples.csv", root=tmp_path, load=VIEW)
    assert [again.class_names[label] for label in again.labels] == list(names)


@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_an_array_has_row_numbers_only(name, tmp_path):
    models.write_embeddings(Pixels(), PIXELS, tmp_path / name, batch_size=16)
    found = models.read_embeddings(tmp_path / name)
    np.testing.assert_array_equal(found.embeddings, PIXELS.reshape(40, -1))
    assert found.rows.tolist() == list(range(40))
    assert (found.paths, found.labels, found.class_names) == (None, None, ())


def with_broken_files(files, folder):
    """The set with an empty file, one that is no image, and one that is missing, of which two are a whole block."""
    paths = files.paths.tolist()
    for row, content in [(4, b""), (5, b"hello")]:
        paths[row] = str(folder / f"{row}.png")
        (folder / f"{row}.png").write_bytes(content)
    paths[20] = str(folder / "missing.png")
    return LabeledSet(paths=np.array(paths), labels=files.labels, class_names=files.class_names, load=decode)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_files_that_cannot_be_loaded_are_left_out_and_listed(name, files, small_blocks, tmp_path):
    part = with_broken_files(files, tmp_path)
    skipped = models.write_embeddings(Pixels(), part, tmp_path / name, batch_size=1)
    assert [(row, path) for row, path, _ in skipped] == [(row, part.paths[row]) for row in (4, 5, 20)]
    assert [reason[:32] for _, _, reason in skipped] == [
        "an empty file",
        "Unknown image file format. One o",
        "No such file or directory",
    ]
    found = models.read_embeddings(tmp_path / name)
    kept = np.delete(np.arange(40), [4, 5, 20])
    assert found.skipped == skipped
    assert found.rows.tolist() == kept.tolist()
    np.testing.assert_array_equal(found.embeddings, files.take(kept).examples().reshape(37, -1))
    assert part.unreadable_files() == skipped


class Source:
    """Seven records; the fourth cannot be read, the last has another shape."""

    def __len__(self):
        return 7

    def __getitem__(self, row):
        if row == 3:
            raise OSError("a bad sector")
        return np.full(3 if row == 6 else 2, row, np.float32)


@pytest.mark.slow
def test_rows_of_a_source_that_load_keep_their_batches_and_numbers(tmp_path):
    part = LabeledSet(source=Source(), labels=np.zeros(7, int), class_names=("a",), load=lambda record: record + 1)
    batches = [(x.numpy()[:, 0].tolist(), rows.numpy().tolist()) for x, rows in part.loadable(2)]
    assert batches == [([1, 2], [0, 1]), ([3], [2]), ([5, 6], [4, 5]), ([7], [6])]
    assert [rows.numpy().tolist() for _, rows in part.loadable(2, start=4)] == [[4, 5], [6]]
    assert [rows.numpy().tolist() for _, rows in part.loadable(7)] == []
    assert part.unreadable_files() == ((3, "3", "a bad sector"),)
    with pytest.raises(ValueError, match=r"0 that can be loaded \(first 0: not loaded: another shape than the rest"):
        models.write_embeddings(Pixels(), part, tmp_path / "out", batch_size=7)
    skipped = models.write_embeddings(Pixels(), part.take(slice(6)), tmp_path / "out", batch_size=2)
    assert skipped == ((3, "3", "a bad sector"),)


def test_a_set_without_a_file_that_can_be_loaded_is_an_error(files, tmp_path):
    part = with_broken_files(files, tmp_path).take([4, 5, 20])
    with pytest.raises(ValueError, match=r"3 examples and 0 that can be loaded .first .*4.png.*an empty file"):
        models.write_embeddings(Pixels(), part, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("batch", [1, 3, 4, 9, 10])
@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_a_run_that_was_stopped_resumes_after_the_last_whole_part(name, batch, small_blocks, tmp_path):
    models.write_embeddings(Pixels(), PIXELS, tmp_path / f"whole-{name}", batch_size=4)
    with pytest.raises(KeyboardInterrupt):
        models.write_embeddings(Pixels(interrupted=batch), PIXELS, tmp_path / name, batch_size=4)
    assert not (tmp_path / name).exists()
    rest = Pixels(interrupted=100)
    models.write_embeddings(rest, PIXELS, tmp_path / name, batch_size=4)
    assert 100 - rest.left == 10 - (batch - 1) // 2 * 2
    for file in [tmp_path / name] if name == "out.parquet" else (tmp_path / name).iterdir():
        whole = tmp_path / f"whole-{file.relative_to(tmp_path)}"
        assert file.read_bytes() == whole.read_bytes()
    assert not (tmp_path / f"{name}.unfinished").exists()


def test_what_a_dead_writer_of_a_chunk_left_is_removed_with_the_chunks(small_blocks, tmp_path):
    stopped(PIXELS, tmp_path / "out", batch_size=4)
    chunk = next((tmp_path / "out.unfinished").glob("*.npz"))
    (chunk.parent / f".partial-1-0123abcd-{chunk.name}").mkdir()
    models.write_embeddings(Pixels(), PIXELS, tmp_path / "out", batch_size=4)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def stopped(data, path, **options):
    with pytest.raises(KeyboardInterrupt):
        models.write_embeddings(Pixels(interrupted=3), data, path, **options)


CHANGED = PIXELS.copy()
CHANGED[7, 1, 2, 0] += 1


@pytest.mark.parametrize(
    ("model", "data", "batch_size", "what"),
    [
        (Pixels(), CHANGED, 4, "another set"),
        (Pixels(fingerprint="other"), PIXELS, 4, r"another model \(pixels, now other\)"),
        (Pixels(), PIXELS[::-1], 4, "another set"),
        (Pixels(), PIXELS[:-1], 4, "another set"),
        (Pixels(fingerprint="other"), PIXELS, 5, r"another model and another batch size \(pixels, now other\)"),
    ],
)
def test_another_run_does_not_resume_this_one(model, data, batch_size, what, small_blocks, tmp_path):
    stopped(PIXELS, tmp_path / "out", batch_size=4)
    with pytest.raises(ValueError, match=f"unfinished run in .*out.unfinished' with {what}, expected the same. Finish"):
        models.write_embeddings(model, data, tmp_path / "out", batch_size=batch_size)


def test_a_run_without_a_whole_part_leaves_nothing_to_resume(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        models.write_embeddings(Pixels(interrupted=1), PIXELS, tmp_path / "out", batch_size=4)
    models.write_embeddings(Pixels(fingerprint="other"), PIXELS, tmp_path / "out", batch_size=5)
    assert len(models.read_embeddings(tmp_path / "out")) == 40


def test_a_set_knows_what_it_depends_on(files):
    def changed(**options):
        fields = dict(paths=files.paths, labels=files.labels, class_names=files.class_names, load=VIEW)
        return LabeledSet(**{**fields, **options}).fingerprint()

    others = [
        changed(labels=files.labels[::-1]),
        changed(class_names=("d", "c", "b", "a")),
        changed(paths=files.paths[::-1]),
        changed(load=Preprocessing(size=5)),
        changed(load=Preprocessing(size=4, boxes=True), boxes=np.ones((40, 4))),
        changed(load=Preprocessing(size=4, boxes=True), boxes=np.zeros((40, 4))),
        changed(paths=files.paths[:39], labels=files.labels[:39]),
        changed(paths=None, images=PIXELS, load=None),
        changed(paths=None, images=255 - PIXELS, load=None),
        changed(paths=None, images=CHANGED, load=None),
    ]
    before = changed()
    assert changed() == before
    assert len({*others, before}) == len(others) + 1
    os.utime(files.paths[7], ns=(1, 1))
    assert changed() not in (*others, before)


def test_embeddings_that_are_not_finite_are_an_error_that_names_the_row(tmp_path):
    x = np.ones((8, 2), np.float32)
    x[6, 1] = np.inf
    with pytest.raises(ValueError, match="row 6 an embedding that is not finite"):
        models.write_embeddings(Pixels(), x, tmp_path / "out", batch_size=3)


def test_earlier_embeddings_are_replaced_and_nothing_else(tmp_path):
    for values in (PIXELS, PIXELS[:3]):
        models.write_embeddings(Pixels(), values, tmp_path / "out")
    assert len(models.read_embeddings(tmp_path / "out")) == 3
    with pytest.raises(ValueError, match=r"expected a .parquet file, or a folder"):
        models.write_embeddings(Pixels(), PIXELS, tmp_path / "out.npy")
    with pytest.raises(ValueError, match="a set without examples"):
        models.write_embeddings(Pixels(), PIXELS[:0], tmp_path / "new")


def test_what_is_not_embeddings_is_not_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected embeddings that write_embeddings wrote"):
        models.read_embeddings(tmp_path / "nothing")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(ValueError, match="is not a Parquet file"):
        models.read_embeddings(tmp_path / "text.parquet")


def columns_of(path):
    """Embeddings and rows of a file; the message of the error if it is not read."""
    try:
        read = models.read_embeddings(path)
    except ValueError as error:
        return str(error)
    return read.embeddings.tolist(), read.rows.tolist()


@pytest.mark.slow
def test_no_flipped_bit_in_a_column_of_a_parquet_file_changes_an_embedding_or_its_row(tmp_path):
    path = tmp_path / "out.parquet"
    models.write_embeddings(Pixels(), PIXELS, path)
    whole, columns = path.read_bytes(), columns_of(path)
    size_of_footer = int.from_bytes(whole[-8:-4], "little")  # it has no checksum
    for at in np.random.default_rng(0).choice(len(whole) - 8 - size_of_footer, 200, replace=False):
        flip(path, 8 * at)
        read = columns_of(path)
        assert read == columns or "out.parquet" in read
        path.write_bytes(whole)


def vectors_of(kind, rows=3):
    return pyarrow.array([[1.0, 2.0]] * rows, kind)


ROWS = pyarrow.array([0, 1, 2])
MATRIX = vectors_of(pyarrow.list_(pyarrow.float32(), 2))
TABLES = {
    "without rows": {"embedding": MATRIX},
    "with a row that is null": {"row": pyarrow.array([0, None, 2]), "embedding": MATRIX},
    "with another column": {"row": ROWS, "price": ROWS, "embedding": MATRIX},
    "with embeddings of text": {"row": ROWS, "embedding": list("abc")},
    "with float64": {"row": ROWS, "embedding": vectors_of(pyarrow.list_(pyarrow.float64(), 2))},
    "with lists of any length": {"row": ROWS, "embedding": vectors_of(pyarrow.list_(pyarrow.float32()))},
    "with an embedding that is null": {
        "row": ROWS,
        "embedding": pyarrow.array([[1, 2], None, [1, 2]], pyarrow.list_(pyarrow.float32(), 2)),
    },
    "without lines": {"row": ROWS[:0], "embedding": MATRIX[:0]},
}


SKIPPED = ["[" * 100_000, "{}", "[1]", "[[1]]", '[["x", "a", "b"]]', '[[1e999, "a", "b"]]']
OTHER_FORMS = {name: (columns, "[]") for name, columns in TABLES.items()} | {
    f"that skipped {text[:18]}": ({"row": ROWS, "embedding": MATRIX}, text) for text in SKIPPED
}


@pytest.mark.parametrize(("columns", "skipped"), OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_a_parquet_file_of_another_form_is_an_error_that_names_it(columns, skipped, tmp_path):
    facts = {"skipped": skipped, "fingerprint": "a model"}
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(facts), tmp_path / "out.parquet")
    with pytest.raises(ValueError, match=r"out\.parquet"):
        models.read_embeddings(tmp_path / "out.parquet")


def test_a_parquet_file_of_pyarrow_needs_the_columns_and_facts_of_embeddings(tmp_path):
    table = pyarrow.table({"row": ROWS, "path": list("xyz"), "label": list("bab"), "embedding": MATRIX})
    facts = {"skipped": '[[3, "w", "broken"]]', "fingerprint": "a model"}
    for missing in facts:
        others = {name: fact for name, fact in facts.items() if name != missing}
        parquet.write_table(table.replace_schema_metadata(others), tmp_path / "out.parquet")
        with pytest.raises(ValueError, match=r"out\.parquet.*expected a file that write_embeddings wrote"):
            models.read_embeddings(tmp_path / "out.parquet")
    parquet.write_table(table.replace_schema_metadata(facts), tmp_path / "out.parquet")
    read = models.read_embeddings(tmp_path / "out.parquet")
    assert read.fingerprint == "a model"
    assert read.embeddings.tolist() == [[1, 2]] * 3
    assert read.rows.tolist() == [0, 1, 2]
    assert read.labels.tolist() == [1, 0, 1]
    assert read.skipped == ((3, "w", "broken"),)


UNFINISHED = {
    "a flipped bit": ("000000000.npz", lambda file: flip(file, 2_400)),
    "a cut": ("000000000.npz", lambda file: file.write_bytes(file.read_bytes()[:100])),
    "floats": ("000000000.npz", lambda file: np.savez(file, embeddings=np.ones((8, 90)), rows=np.ones(8))),
    "fewer rows": ("000000000.npz", lambda file: np.savez(file, embeddings=np.ones((8, 90)), rows=np.arange(7))),
    **{
        f"a record {text[:9]!r}": ("run.json", lambda file, text=text: file.write_text(text, encoding="latin-1"))
        for text in ("[" * 100_000, "[]", "{", "\xff")
    },
}


@pytest.mark.parametrize(("name", "damage"), UNFINISHED.values(), ids=UNFINISHED)
def test_a_damaged_file_of_an_unfinished_run_is_an_error_that_names_it(name, damage, small_blocks, tmp_path):
    stopped(PIXELS, tmp_path / "out", batch_size=8)
    damage(tmp_path / "out.unfinished" / name)
    what = "', a chunk .* Remove its folder" if name.endswith("npz") else ""
    with pytest.raises(ValueError, match=rf"out\.unfinished/{name}{what}"):
        models.write_embeddings(Pixels(), PIXELS, tmp_path / "out", batch_size=8)
    assert not (tmp_path / "out").exists()
