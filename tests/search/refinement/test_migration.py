"""Migrations of indexes: every version is of one space, and a kill at any moment loses and doubles nothing."""

import json
import shutil

import numpy as np
import pyarrow
import pytest
from scipy.stats import special_ortho_group

from tests.moments import copied_at_every_operation
from tfdml import search
from tfdml.search.refinement.migration import migrate

RANDOM = np.random.default_rng(0)
OLD = RANDOM.standard_normal((200, 6)).astype("float32")
NEW = (OLD @ RANDOM.standard_normal((6, 8)) + 0.1 * RANDOM.standard_normal((200, 8))).astype("float32")
NAMES = np.array([f"item {row:03}" for row in range(200)])


def new_of(ids, metadata):
    """The new vectors of items by the number in their name."""
    rows = [int(name[-3:]) for name in ids]
    assert metadata["row"].to_pylist() == rows
    return NEW[rows]


def saved(path, count=200, kind=search.Exact, **options):
    index = kind(OLD[:count], NAMES[:count], metadata={"row": np.arange(count)}, model="old", **options)
    index.save(path)
    return index


def assert_migrated(path, rows=range(200), metric="cosine"):
    index, expected = search.load(path, model="new"), search.Exact(NEW[list(rows)], metric=metric)
    assert index.ids.tolist() == NAMES[list(rows)].tolist()
    assert index.metadata.to_pydict() == {"row": list(rows)}
    np.testing.assert_allclose(index.vectors, expected.vectors, atol=1e-5)
    assert [file.name for file in path.parent.iterdir() if file.name[0] != "."] == [path.name]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (search.Exact, {"metric": "euclidean"}),
        (search.Exact, {"metric": "dot"}),
        (search.Scann, {"method": "partitioned", "leaves": 5, "leaves_to_search": 5, "rescore": 200}),
        (search.Faiss, {"method": "partitioned", "codes": "float32", "leaves": 5, "leaves_to_search": 5}),
        (search.Lance, {"method": "partitioned", "leaves": 5, "leaves_to_search": 5}),
    ],
)
def test_a_migrated_index_is_the_index_of_the_new_vectors(kind, options, tmp_path, monkeypatch):
    monkeypatch.setattr("tfdml.search.refinement.migration._SECONDS_TO_LEAVE", 0)
    saved(tmp_path / "index", kind=kind, **options)
    states = list(migrate(tmp_path / "index", new_of, model="new", batch_size=90))
    assert [(state.embedded, state.items) for state in states] == [(90, 200), (180, 200), (200, 200)]
    assert_migrated(tmp_path / "index", metric=options.get("metric", "cosine"))
    index = search.load(tmp_path / "index")
    assert type(index) is kind
    assert {name: getattr(index, name) for name in options} == options


def test_every_version_is_of_one_space_and_says_what_its_vectors_are(tmp_path):
    old_index = saved(tmp_path / "index")
    for state in migrate(tmp_path / "index", new_of, model="new", batch_size=30):
        index = search.load(tmp_path / "index", model="new")
        assert (index.fingerprint, index.dim, index.ids.tolist()) == ("new", 8, NAMES.tolist())
        if "vector" in index.metadata.column_names:
            shown = index.metadata["vector"].to_pylist().count("embedded")
            assert state.embedded / 1.25 < shown <= state.embedded
            embedded = np.arange(200) >= 200 - shown  # newest first
            assert index.metadata["vector"].to_pylist() == np.where(embedded, "embedded", "adapted").tolist()
            learned = embedded & (np.arange(200) % 10 > 0)
            adapted = search.LinearAdapter.learn(OLD[learned], NEW[learned])(OLD)
            expected = search.Exact(np.where(embedded[:, None], NEW, adapted))
            np.testing.assert_allclose(index.vectors, expected.vectors, atol=1e-5)
        for model in (None, "old"):  # until the end
            np.testing.assert_array_equal(search.load(tmp_path / "index", model=model).vectors, old_index.vectors)
        with pytest.raises(ValueError, match=r"queries of model third .*, expected those of model old"):
            search.load(tmp_path / "index", model="third")
    assert state.embedded == 200
    assert_migrated(tmp_path / "index")


def test_a_linear_change_is_answered_in_full_from_the_first_batch_on(tmp_path):
    new = OLD @ special_ortho_group(6, seed=1).rvs()
    search.Exact(OLD, model="old").save(tmp_path / "index")
    states = migrate(tmp_path / "index", lambda ids, _: new[ids], model="new", batch_size=50)
    assert next(states).recall == 1
    index = search.load(tmp_path / "index", model="new")
    np.testing.assert_array_equal(index.search(new, 1)[0][:, 0], np.arange(200))
    assert [state.recall for state in states] == [1, 1, 1]


def test_items_that_are_asked_for_come_first_and_then_the_newest(tmp_path):
    asked = pyarrow.array([None, 5, 0, 7, 5, 0])
    search.Exact(OLD[:6], metadata={"asked": asked}, model="old").save(tmp_path / "index")
    order = []

    def embed(ids, metadata):
        order.extend(ids.tolist())
        return NEW[ids]

    list(migrate(tmp_path / "index", embed, model="new", batch_size=4))
    assert order == [3, 4, 1, 5, 2, 0]


@pytest.mark.slow
def test_a_kill_before_any_file_operation_loses_and_doubles_nothing(tmp_path):
    (tmp_path / "here").mkdir()
    saved(tmp_path / "here" / "index", 60)  # two batches
    with copied_at_every_operation(tmp_path / "here", tmp_path / "copies") as copies:
        list(migrate(tmp_path / "here" / "index", new_of, model="new", batch_size=40))
    assert len(copies) > 100
    for copy in copies:
        embedded = []

        def embed(ids, metadata):
            embedded.extend(ids)  # noqa: B023
            return new_of(ids, metadata)

        search.load(copy / "index")  # whole, of the old or of the new model
        kept = sum(len(np.load(file)["ids"]) for file in (copy / "index.migrating").glob("0*.npz"))
        if (copy / "index.migrating").exists() or search.load(copy / "index").fingerprint == "old":
            list(migrate(copy / "index", embed, model="new", batch_size=40))
        assert len(embedded) == len(set(embedded)) <= 60 - kept
        assert_migrated(copy / "index", range(60))
        shutil.rmtree(copy)


def test_changes_of_the_index_are_followed(tmp_path):
    index = saved(tmp_path / "index", 150)
    states = migrate(tmp_path / "index", new_of, model="new", batch_size=60)
    next(states)
    index.add(OLD[150:], NAMES[150:], metadata={"row": np.arange(150, 200)}, model="old")
    index.remove(NAMES[[3, 149]])
    index.update(NAMES[[4]], OLD[[3]])  # another image: embedded again, whatever was known
    index.save(tmp_path / "index")
    list(states)
    assert_migrated(tmp_path / "index", [*[row for row in range(200) if row not in (3, 4, 149)], 4])


def test_items_that_are_gone_keep_adapted_vectors(tmp_path):
    saved(tmp_path / "index")
    gone = np.array([7, 60, 199])

    def embed(ids, metadata):
        vectors = new_of(ids, metadata)
        vectors[np.isin(ids, NAMES[gone])] = np.nan
        return vectors

    *_, last = migrate(tmp_path / "index", embed, model="new", batch_size=64)
    assert (last.embedded, last.gone, last.items) == (197, 3, 200)
    assert "197 of 200 items embedded again, 3 cannot be embedded" in str(last)
    index = search.load(tmp_path / "index", model="new")
    assert np.flatnonzero(index.mask(pyarrow.compute.field("vector") == "adapted")).tolist() == gone.tolist()
    assert index.search(NEW[gone], 1)[0][:, 0].tolist() == NAMES[gone].tolist()
    list(migrate(tmp_path / "index", lambda ids, _: OLD[[int(id[-3:]) for id in ids]], model="third"))
    assert search.load(tmp_path / "index").metadata.column_names == ["row"]


def test_items_that_were_gone_are_tried_again_by_the_next_call(tmp_path):
    saved(tmp_path / "index")
    nothing = lambda ids, _: np.full((len(ids), 1), np.nan)  # noqa: E731
    with pytest.raises(ValueError, match=r"64 items, none of which can be embedded, .*nothing was changed"):
        list(migrate(tmp_path / "index", nothing, model="new", batch_size=64))
    states = migrate(tmp_path / "index", new_of, model="new", batch_size=64)
    next(states)
    states.close()
    some = migrate(tmp_path / "index", nothing, model="new", batch_size=64)
    assert (next(some).embedded, next(some).gone) == (64, 128)
    some.close()
    list(migrate(tmp_path / "index", new_of, model="new", batch_size=64))
    assert_migrated(tmp_path / "index")


def test_too_few_items_to_learn_an_adapter(tmp_path):
    saved(tmp_path / "index", 10)
    states = migrate(tmp_path / "index", new_of, model="new", batch_size=1)
    assert next(states).embedded == 1
    with pytest.raises(ValueError, match="queries of model new"):
        search.load(tmp_path / "index", model="new")
    list(states)
    assert_migrated(tmp_path / "index", range(10))
    saved(tmp_path / "index", 2)
    only = lambda ids, _: np.where(ids[:, None] == NAMES[1], NEW[:2], np.nan)  # noqa: E731
    with pytest.raises(ValueError, match=r"1 of 2 items that can be embedded, .* Put their images back"):
        list(migrate(tmp_path / "index", only, model="new"))
    assert search.load(tmp_path / "index").fingerprint == "old"


def test_what_cannot_be_migrated_is_refused_at_the_call(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a folder with index\.json"):
        migrate(tmp_path / "index", new_of, model="new")
    saved(tmp_path / "index")
    with pytest.raises(ValueError, match=r"an index of the model old, to which it is migrated, .* nothing to do"):
        migrate(tmp_path / "index", new_of, model="old")
    with pytest.raises(ValueError, match="model=None, expected the new model"):
        migrate(tmp_path / "index", new_of, model=None)
    with pytest.raises(ValueError, match="batch_size=0"):
        migrate(tmp_path / "index", new_of, model="new", batch_size=0)
    states = migrate(tmp_path / "index", new_of, model="new", batch_size=50)
    next(states)
    with pytest.raises(BlockingIOError, match=r"which process .* writes now"):
        list(migrate(tmp_path / "index", new_of, model="new"))
    states.close()
    with pytest.raises(ValueError, match=r"an unfinished migration to the model new .*, expected one to third"):
        migrate(tmp_path / "index", new_of, model="third")
    (tmp_path / "index.migrating" / "run.json").write_text(json.dumps({"model": "new"}))
    with pytest.raises(ValueError, match="an unfinished migration"):
        migrate(tmp_path / "index", new_of, model="new")
    (tmp_path / "index.migrating" / "run.json").unlink()
    with pytest.raises(FileExistsError, match="a folder of something else"):
        migrate(tmp_path / "index", new_of, model="new")
    search.Exact(OLD, metadata={"vector": np.arange(200)}, model="old").save(tmp_path / "other")
    with pytest.raises(ValueError, match="a column 'vector', expected another name"):
        migrate(tmp_path / "other", new_of, model="new")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (NEW[:49], r"new vectors of shape \(49, 8\) of 50 items, expected \(50, dim\) from embed"),
        (NEW[0], r"new vectors of shape \(8,\)"),
        (NEW[:50, :7], r"new vectors of shape \(50, 7\) of 50 items, expected dim 8"),
    ],
)
def test_embeddings_of_another_shape_are_refused(vectors, message, tmp_path):
    saved(tmp_path / "index")
    states = migrate(tmp_path / "index", new_of, model="new", batch_size=50)
    next(states)
    states.close()
    with pytest.raises(ValueError, match=message):
        list(migrate(tmp_path / "index", lambda *_: vectors, model="new", batch_size=50))


def test_an_index_of_an_unknown_model_can_be_migrated(tmp_path):
    search.Exact(OLD).save(tmp_path / "index")
    for _ in migrate(tmp_path / "index", lambda ids, _: NEW[ids], model="new", batch_size=150):
        assert search.load(tmp_path / "index", model="new").fingerprint == "new"
    assert search.load(tmp_path / "index").metadata is None
