"""Bulk embedding: equal to one machine, each example once, resumed, and with errors that keep what is finished."""

import csv
import hashlib
import os
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.embedded import DIM, ROWS, Projection, labeled_set, shards, vectors
from tfdml import distributed, models
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.distributed.embedding import read_shards
from tfdml.search import search_on_disk

pytestmark = pytest.mark.slow

VIEW = Preprocessing(size=4)


class Pixels(Projection):
    """A model of images."""

    def predict_on_batch(self, images):
        return super().predict_on_batch(np.asarray(images).reshape(len(images), -1))


class Slow(Projection):
    """A model that takes a moment for each batch."""

    def predict_on_batch(self, examples):
        time.sleep(0.05)
        return super().predict_on_batch(examples)


class Ending(Projection):
    """A model that ends its process, as the system does where memory is short."""

    def predict_on_batch(self, examples):
        os._exit(1)


class Diverged(Projection):
    """A model that fails on the examples of the second shard."""

    def predict_on_batch(self, examples):
        embeddings = super().predict_on_batch(examples)
        return np.where(np.asarray(examples)[:, :1] == vectors()[70, 0], np.nan, embeddings)


def rows_of(embedded):
    return np.concatenate([shard.rows for shard in embedded])


def test_shards_hold_the_embeddings_of_one_machine_in_their_order(embedded):
    np.testing.assert_array_equal(rows_of(embedded), np.arange(ROWS))
    expected = models.embed(Projection(), labeled_set(), batch_size=16)
    np.testing.assert_array_equal(np.concatenate([shard.embeddings for shard in embedded]), expected)
    assert (len(embedded), embedded.dim, embedded.starts.tolist()) == (ROWS, DIM, [0, 64, 128, 192, 256, 300])
    assert embedded.run["model"] == Projection.fingerprint
    assert embedded.read(4).class_names == tuple(f"class {i}" for i in range(10))
    neighbors, _ = search_on_disk(embedded.paths, expected[:3], k=1)
    np.testing.assert_array_equal(neighbors[:, 0], [0, 1, 2])


def test_a_stopped_run_goes_on_with_the_shards_that_are_missing(cluster, tmp_path):
    embedded = shards(tmp_path / "embedded")
    written = {path: path.stat().st_mtime_ns for path in embedded.paths}
    (tmp_path / "embedded" / "part-000002.json").unlink()
    with pytest.raises(ValueError, match=re.escape("1 of 5 shards are not finished (['part-000002'])")):
        read_shards(tmp_path / "embedded")
    again = shards(tmp_path / "embedded")
    changed = [path.name for path in again.paths if path.stat().st_mtime_ns != written[path]]
    assert changed == ["part-000002.parquet"]
    np.testing.assert_array_equal(rows_of(again), np.arange(ROWS))


def test_broken_files_are_listed_with_their_reasons(cluster, tmp_path):
    whole = [tf.io.encode_png(np.full((4, 4, 3), value, np.uint8)).numpy() for value in range(6)]
    contents = [*whole[:3], b"not an image", *whole[4:], whole[5][:20], b""]
    paths = np.array([str(tmp_path / f"{row}.png") for row in range(len(contents))])
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    images = LabeledSet(paths=paths, labels=np.zeros(len(paths), np.int64), class_names=("all",), load=VIEW)
    embedded = distributed.embed(Pixels(), images, tmp_path / "embedded", batch_size=2, shard_size=6)
    np.testing.assert_array_equal(rows_of(embedded), [0, 1, 2, 4, 5])
    np.testing.assert_array_equal(embedded.read(0).embeddings[:, 0], [0, 1, 2, 4, 5])
    assert embedded.read(0).paths.tolist() == paths[[0, 1, 2, 4, 5]].tolist()
    assert [(row, path) for row, path, _ in embedded.skipped] == [(row, paths[row]) for row in (3, 6, 7)]
    assert all(reason for _, _, reason in embedded.skipped)
    with open(tmp_path / "embedded" / "skipped.csv", newline="") as file:
        assert [line[0] for line in csv.reader(file)] == ["row", "3", "6", "7"]
    assert embedded.names == ["part-000000"]  # all images of the other shard are broken


def test_shards_and_their_index_know_their_files(cluster, tmp_path):
    for row in range(5):
        (tmp_path / f"{row}.png").write_bytes(tf.io.encode_png(np.full((4, 4 + row, 3), row, np.uint8)).numpy())
    paths = np.array([str(tmp_path / f"{row}.png") for row in range(5)])
    images = LabeledSet(paths=paths, labels=np.array([0, -1, 1, 1, -1]), class_names=("a", "b"), load=VIEW)
    shards = distributed.embed(Pixels(), images, tmp_path / "embedded", batch_size=2, shard_size=2)
    digests = [hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16] for path in paths]
    read = list(shards)
    assert [each for shard in read for each in shard.files["_checksum"]] == digests
    assert [each for shard in read for each in shard.files["_size"]] == [Path(path).stat().st_size for path in paths]
    table = distributed.build_index(shards, tmp_path / "index").metadata
    assert table["path"].to_pylist() == paths.tolist()
    assert table["label"].to_pylist() == ["a", None, "b", "b", None]
    assert table["_checksum"].to_pylist() == digests
    assert set(table["_root"].to_pylist()) == {os.getcwd()}


def test_an_error_of_the_model_is_raised_and_finished_shards_are_kept(cluster, tmp_path):
    with pytest.raises(ValueError, match=r"begins with row 64: .* row 6 an embedding that is not finite"):
        distributed.embed(Diverged(), labeled_set(), tmp_path / "embedded", batch_size=16, shard_size=64, actors=1)
    assert (tmp_path / "embedded" / "part-000000.json").is_file()
    assert not (tmp_path / "embedded" / "part-000001.json").exists()
    embedded = shards(tmp_path / "embedded")  # of a model of the same fingerprint
    np.testing.assert_array_equal(rows_of(embedded), np.arange(ROWS))


def test_an_actor_that_ends_each_time_is_an_error_in_place_of_a_run_without_end(cluster, tmp_path):
    with pytest.raises(RuntimeError, match="an actor that embeds, whose process or node ended 4 times"):
        distributed.embed(Ending(), labeled_set(), tmp_path / "embedded", batch_size=16, shard_size=64, actors=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(batch_size=8), "a run of batch_size 16 where this call has 8"),
        (dict(shard_size=100), "a run of shard_size 64 where this call has 100"),
        (dict(batch_size=0), "batch_size=0"),
    ],
)
def test_another_run_in_the_folder_is_an_error(embedded, options, message):
    options = {"batch_size": 16, "shard_size": 64, **options}
    with pytest.raises(ValueError, match=re.escape(message)):
        distributed.embed(Projection(), labeled_set(), embedded.folder, **options)


def test_another_model_set_or_folder_is_an_error_and_keeps_the_files(cluster, tmp_path):
    embedded = shards(tmp_path / "embedded")
    other = Projection()
    other.fingerprint = "another projection"
    with pytest.raises(ValueError, match="a run of model 'a projection' where this call has 'another projection'"):
        distributed.embed(other, labeled_set(), embedded.folder, batch_size=16, shard_size=64)
    with pytest.raises(ValueError, match=r"a run of set .* and examples 300 where this call has 200"):
        shards(tmp_path / "embedded", rows=200)
    changed = labeled_set()
    changed.images[7] = 99
    with pytest.raises(ValueError, match=r"a run of set '.*' where this call has"):
        distributed.embed(Projection(), changed, embedded.folder, batch_size=16, shard_size=64)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"")
    with pytest.raises(FileExistsError, match=re.escape("a folder with 'cat.jpg' and without run.json")):
        shards(tmp_path / "photos")
    embedded.paths[1].write_bytes(b"short")
    with pytest.raises(ValueError, match=re.escape("part-000001.parquet' of 5 bytes")):
        read_shards(embedded.folder)
    embedded.paths[1].unlink()
    with pytest.raises(FileNotFoundError, match=re.escape("without the shard 'part-000001.parquet'")):
        read_shards(embedded.folder)


def killed_node(folder, shard_count):
    """Embed on two nodes, of which one is killed after the first shards; returns the shards and when they were done."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    import ray

    ray.init(address=nodes.address, log_to_driver=False)
    results = []
    data = labeled_set(64 * shard_count)
    arguments = Slow(), data, folder
    run = threading.Thread(
        target=lambda: results.append(distributed.embed(*arguments, batch_size=4, shard_size=64, actors=(1, 2)))
    )
    try:
        run.start()
        while run.is_alive() and len(list(folder.glob("part-*.json"))) < 4:
            time.sleep(0.05)
        nodes.remove_node(second, allow_graceful=False)
        finished = len(list(folder.glob("part-*.json")))
        run.join(timeout=180)
    finally:
        ray.shutdown()
        nodes.shutdown()
    return results, finished


@pytest.mark.nightly
def test_each_example_is_there_once_although_a_node_is_killed(tmp_path):
    import ray

    ray.shutdown()
    results, finished = killed_node(tmp_path / "embedded", 16)
    assert finished < 16, "the node was killed after the run"
    (embedded,) = results
    np.testing.assert_array_equal(rows_of(embedded), np.arange(64 * 16))
    np.testing.assert_array_equal(np.concatenate([shard.embeddings for shard in embedded]), vectors(64 * 16))


def test_a_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape("without run.json")):
        read_shards(tmp_path / "nothing")
