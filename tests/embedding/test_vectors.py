"""Embeddings know their model through slices, stacks and files, and indexes compare it without being asked."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tests.worlds import Pixels
from tfdml import models, search

X = np.random.default_rng(0).standard_normal((40, 8)).astype("float32")
OLD, NEW = "0" * 64, "1" * 64
old, new = models.embed(Pixels(fingerprint=OLD), X), models.embed(Pixels(fingerprint=NEW), X)


def test_rows_copies_and_stacks_of_one_model_keep_it():
    kept = [
        old[3:9],
        old[::-1],
        old[[4, 2]],
        old[old[:, 0] > 0],
        old[3],
        old[3][None],
        old.copy(),
        old.reshape(4, 10, 8),
    ]
    kept += [
        np.concatenate([old, old[:3]]),
        np.vstack([old, old]),
        np.stack([old[0], old[1]]),
        np.take(old, [1], axis=0),
    ]
    kept += [old.astype("float64"), copy.deepcopy(old), pickle.loads(pickle.dumps(old))]
    assert [vectors.fingerprint for vectors in kept] == [OLD] * len(kept)
    np.testing.assert_array_equal(kept[-1], old)


def test_arithmetic_other_columns_and_stacks_of_several_models_are_unknown():
    unknown = [
        old * 2,
        2 - old,
        old / np.linalg.norm(old, axis=1, keepdims=True),
        old @ np.eye(8),
        np.dot(old, np.eye(8)),
    ]
    unknown += [old[:, :4], old.mean(axis=0), old.sum(), np.concatenate([old, new]), np.concatenate([old, X])]
    unknown += [np.concatenate([old, old], axis=1), np.hstack([old, new])]
    assert [getattr(vectors, "fingerprint", None) for vectors in unknown] == [None] * len(unknown)
    divided = old.copy()
    divided /= 2
    assert type(divided) is np.ndarray
    np.testing.assert_array_equal(np.add(old, 1, out=old.copy()), np.asarray(old) + 1)


def test_they_print_and_convert_as_arrays():
    assert repr(old[:1]) == repr(np.asarray(old[:1]))
    assert isinstance(old, np.ndarray)
    assert type(np.asarray(old)) is np.ndarray


@pytest.mark.parametrize("kind", [search.Exact, search.Faiss])
def test_the_shortest_program_is_the_guarded_one(kind, tmp_path):
    index = kind(old[:30])
    for change in (
        lambda: index.add(new[30:], np.arange(30, 40)),
        lambda: index.update([3], new[:1]),
        lambda: index.search(new[:2], 3),
    ):
        with pytest.raises(ValueError, match=rf"of model {NEW[:12]} .*, expected those of model {OLD[:12]}"):
            change()
    index.add(old[30:], np.arange(30, 40))
    index.search(X[:2], 3)  # a plain array is unknown
    index.search(new[:2], 3, other_model=True)
    index.search(new[:2], 3, model=OLD)  # what the program states comes first: two towers
    index.save(tmp_path / "index")
    with pytest.raises(ValueError, match=f"queries of model {NEW[:12]}"):
        search.load(tmp_path / "index").search(new[:2], 3)
    assert search.Exact(X).fingerprint is None


def test_files_and_adapters_keep_the_model(tmp_path):
    for name in ("out", "out.parquet"):
        models.write_embeddings(Pixels(fingerprint=NEW), X, tmp_path / name)
        stored = models.read_embeddings(tmp_path / name).embeddings
        assert stored[:5].fingerprint == NEW
        with pytest.raises(ValueError, match="queries of model"):
            search.Exact(old).search(stored, 1)
    adapter = search.LinearAdapter.learn(old, new)
    assert (adapter.old_model, adapter.new_model) == (OLD, NEW)
    with pytest.raises(ValueError, match="an index of model"):
        search.upgrade(search.Exact(new), adapter)
    with pytest.raises(ValueError, match="as of the queries"):
        search.search_on_disk(tmp_path / "out.parquet", old, 1)


def test_a_model_without_a_fingerprint_gives_unknown_vectors():
    class Plain:
        def predict_on_batch(self, x):
            return x

    assert models.embed(Plain(), X).fingerprint is None


def test_examples_of_every_kind_give_the_embeddings_of_the_array():
    class Doubled:
        def predict_on_batch(self, x):
            return 2 * np.asarray(x, np.float32)

    pairs = tf.data.Dataset.from_tensor_slices((X, np.arange(40)))
    for data in (X.tolist(), tf.constant(X), pd.DataFrame(X), pairs.batch(7), pairs.map(lambda x, _: x).batch(2)):
        np.testing.assert_array_equal(models.embed(Doubled(), data, batch_size=9), 2 * X)
    with pytest.raises(ValueError, match=r"Received an endless dataset, .*take\(n\)"):
        models.embed(Doubled(), pairs.batch(7).repeat())
