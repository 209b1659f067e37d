"""Every writer of a folder replaces its own earlier version and nothing else: no file of a user is lost."""

import shutil

import keras
import numpy as np
import pytest

from tests.moments import copied_at_every_operation
from tests.worlds import Pixels
from tests.zoo.conftest import ABOUT, DATA, IMAGES, network
from tfdml import callbacks, cleaning, datasets, export, models, search, zoo
from tfdml._core.atomic import recovered
from tfdml.cleaning.findings import Finding, Findings

VECTORS = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")

FINDINGS = Findings((Finding("unreadable", "a.jpg"),), 2, 0.9, None, None)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return network()


def export_best(model, folder):
    callback = callbacks.ExportBest(folder, monitor="score", start_over=True)
    callback.set_model(model)
    callback.on_epoch_end(0, {"score": 0.5})


WRITERS = {
    "exact index": lambda model, folder: search.Exact(VECTORS).save(folder),
    "ScaNN index": lambda model, folder: search.Scann(VECTORS).save(folder),
    "faiss index": lambda model, folder: search.Faiss(VECTORS).save(folder),
    "export": lambda model, folder: export.saved_model(model, folder),
    "best export": export_best,
    "zoo entry": lambda model, folder: zoo.save(
        model, folder.name, DATA, summary="Squares.", root=folder.parent, **ABOUT
    ),
    "embeddings": lambda model, folder: models.write_embeddings(Pixels(4), IMAGES, folder),
    "findings": lambda model, folder: cleaning.write_report(FINDINGS, folder),
    "cache": lambda model, folder: datasets.LabeledSet(
        images=IMAGES, labels=DATA.labels, class_names=DATA.class_names
    ).cached(folder),
}
SLOW = ("export", "best export", "zoo entry")  # they trace a network
# Files by which a writer used to take a folder for its own, as other programs write them.
MARKERS = {
    "index.json": '{"name": "a site", "files": {"notes.txt": 5}}',
    "saved_model.pb": "of another program",
    "model.json": '{"format": "layers-model", "modelTopology": {}}',
    "embeddings.npy": "of another program",
    "cache.json": "{}",
    "findings.csv": "name,reason\n",
}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in WRITERS]
)
def written(request, model, tmp_path_factory):
    """A writer, and a folder that it has written twice."""
    folder = tmp_path_factory.mktemp("written") / "thing"
    for _ in range(2):
        WRITERS[request.param](model, folder)
    return WRITERS[request.param], folder


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["notes.txt", "more/.hidden"])
def test_a_user_s_file_beside_an_earlier_version_is_named_and_all_stays(written, model, name):
    write, folder = written
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = contents(folder)
    with pytest.raises(FileExistsError, match=f"a folder with '{name}'"):
        write(model, folder)
    assert contents(folder) == before
    (folder / name).unlink()


def test_a_writer_that_is_stopped_at_any_operation_leaves_the_old_or_the_new_version(written, model, tmp_path):
    write, folder = written
    home = shutil.copytree(folder.parent, tmp_path / "home") / "thing"
    (old_mark := home / "new folder").mkdir()  # an empty folder may be replaced, and tells the versions apart
    before = contents(home)
    with copied_at_every_operation(home.parent, tmp_path / "copies") as copies:
        write(model, home)
    seen = [recovered(copy / "thing") for copy in copies]
    assert all(contents(place) in (before, contents(home)) for place in seen)
    is_old = [(place / old_mark.name).exists() for place in seen]
    assert is_old == sorted(is_old, reverse=True)
    assert write is WRITERS["cache"] or (is_old[0], is_old[-1]) == (True, False)


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "cache"])
@pytest.mark.parametrize("marker", MARKERS)
def test_a_folder_of_another_program_is_left_as_it_is(model, writer, marker, tmp_path):
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / marker).write_text(MARKERS[marker])
    (tmp_path / "thing" / "notes.txt").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match=rf"'({marker}|notes\.txt)'"):
        WRITERS[writer](model, tmp_path / "thing")
    assert contents(tmp_path) == before


def test_a_link_to_a_folder_stays_and_its_target_is_written(written, model, tmp_path):
    write, folder = written
    (tmp_path / "thing").symlink_to(folder, target_is_directory=True)
    inode = folder.stat().st_ino
    write(model, tmp_path / "thing")
    assert (tmp_path / "thing").readlink() == folder
    assert write is WRITERS["cache"] or folder.stat().st_ino != inode  # a cache that fits is kept


def test_a_table_of_a_user_is_not_replaced_by_embeddings(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"embedding": [[1.0]]}), tmp_path / "mine.parquet")
    (tmp_path / "text.parquet").write_text("mine")
    before = contents(tmp_path)
    for name in before:
        with pytest.raises(FileExistsError, match="a file other than embeddings"):
            models.write_embeddings(Pixels(4), IMAGES, tmp_path / name)
    assert contents(tmp_path) == before


def test_a_user_s_file_in_the_folder_of_an_unfinished_run_stays(tmp_path):
    (tmp_path / "out.unfinished").mkdir()
    (tmp_path / "out.unfinished" / "run.json").write_text("{}")
    (tmp_path / "out.unfinished" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"a folder with 'notes\.txt'"):
        models.write_embeddings(Pixels(4), IMAGES, tmp_path / "out")
    assert (tmp_path / "out.unfinished" / "notes.txt").read_text() == "mine"
