"""Migrations of indexes: every version is of one space, and a kill at any moment loses and doubles nothing."""

import datetime
import json
import shutil
import threading
from decimal import Decimal

import numpy as np
import pyarrow
import pytest
from scipy.stats import special_ortho_group

from tests.moments import copied_at_every_operation
from tfdml import search
from tfdml.search.approximate import lance
from tfdml.search.upgrades import migration
from tfdml.search.upgrades.migration import migrate

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
    monkeypatch.setattr(lance, "_SECONDS_TO_LEAVE", 0)
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
    requests = pyarrow.array([None, 5, 0, 7, 5, 0])
    search.Exact(OLD[:6], metadata={"requests": requests}, model="old").save(tmp_path / "index")
    order = []

    def embed(ids, metadata):
        order.extend(ids.tolist())
        return NEW[ids]

    list(migrate(tmp_path / "index", embed, model="new", batch_size=4))
    assert order == [3, 4, 1, 5, 2, 0]


def answers_new(path):
    """Whether an index answers queries of the new model."""
    try:
        return search.load(path, model="new").fingerprint == "new"
    except ValueError:
        return False


@pytest.mark.slow
def test_a_kill_before_any_file_operation_loses_and_doubles_nothing(tmp_path):
    (tmp_path / "here").mkdir()
    saved(tmp_path / "here" / "index", 60)  # two batches
    with copied_at_every_operation(tmp_path / "here", tmp_path / "copies") as copies:
        list(migrate(tmp_path / "here" / "index", new_of, model="new", batch_size=40))
    assert len(copies) > 100
    answers = [answers_new(copy / "index") for copy in copies]
    assert answers == sorted(answers)  # without a gap
    for copy in copies:
        embedded = []

        def embed(ids, metadata):
            embedded.extend(ids)  # noqa: B023
            return new_of(ids, metadata)

        search.load(copy / "index")  # whole, of the old or of the new model
        assert not list(copy.glob(".partial-*"))
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


def add(index):
    index.add(OLD[150:151], NAMES[150:151], metadata={"row": [150]}, model="old")


def remove(index):
    index.remove(NAMES[[3]])


def update(index):
    index.update(NAMES[[4]], OLD[[3]])


CHANGES = {add: [*range(151)], remove: [*range(3), *range(4, 150)], update: [*range(4), *range(5, 150), 4]}


def at_the_exchange(monkeypatch, kind, change):
    """Call `change` once, after the last round has ended and before the new index replaces the old one."""
    left, real = [change], kind.exchange

    def hooked(*arguments):
        _ = left and left.pop()()
        return real(*arguments)

    monkeypatch.setattr(kind, "exchange", hooked)


@pytest.mark.parametrize("kind", [search.Exact, search.Lance])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_right_before_the_exchange_is_kept(kind, change, tmp_path, monkeypatch):
    monkeypatch.setattr(lance, "_SECONDS_TO_LEAVE", 0)
    saved(tmp_path / "index", 150, kind)
    other = search.load(tmp_path / "index")

    def changed(change=change):
        change(other)
        other.save(tmp_path / "index")

    at_the_exchange(monkeypatch, kind, changed)
    list(migrate(tmp_path / "index", new_of, model="new"))
    assert_migrated(tmp_path / "index", CHANGES[change])
    with pytest.raises(ValueError, match=r"another writer has changed|has replaced the one that was read"):
        changed(lambda index: index.update(NAMES[[5]], OLD[[6]]))
    assert search.load(tmp_path / "index").fingerprint == "new"


def test_a_writer_waits_for_the_exchange_and_is_refused(tmp_path, monkeypatch):
    index = saved(tmp_path / "index", 150)
    errors, real = [], shutil.copytree

    def save():
        try:
            index.save(tmp_path / "index")
        except ValueError as error:
            errors.append(str(error))

    writer = threading.Thread(target=save)

    def copied(*arguments, **options):
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()
        return real(*arguments, **options)

    monkeypatch.setattr(migration.shutil, "copytree", copied)
    add(index)
    list(migrate(tmp_path / "index", new_of, model="new"))
    writer.join()
    assert "whose index of the model new has replaced the one that was read, expected one of the model old" in errors[0]
    assert_migrated(tmp_path / "index", range(150))


def test_a_save_replaces_an_index_of_its_model_and_one_that_it_has_not_read(tmp_path):
    index = saved(tmp_path / "index", 150)
    other = search.load(tmp_path / "index")
    add(other)
    other.save(tmp_path / "index")
    index.save(tmp_path / "index")  # of the same model
    index.fingerprint = "renamed"
    index.save(tmp_path / "index")
    saved(tmp_path / "index", 20)  # which knows nothing of the folder
    with pytest.raises(ValueError, match="whose index of the model old has replaced the one that was read"):
        index.save(tmp_path / "index")
    index.save(tmp_path / "elsewhere")


@pytest.mark.parametrize("kind", [search.Exact, search.Lance])
def test_an_index_that_is_loaded_for_the_new_model_is_there_at_every_moment(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(lance, "_SECONDS_TO_LEAVE", 0)
    saved(tmp_path / "index", kind=kind)
    states, is_over, loads = migrate(tmp_path / "index", new_of, model="new", batch_size=150), [], []
    next(states)

    def load():
        while not is_over:
            loads.append(answers_new(tmp_path / "index"))

    reader = threading.Thread(target=load)
    reader.start()
    try:
        list(states)
    finally:
        is_over.append(True)
        reader.join()
    assert all(loads)


def test_items_that_are_gone_keep_adapted_vectors(tmp_path):
    saved(tmp_path / "index")
    gone = np.array([7, 60, 199])

    def embed(ids, metadata):
        vectors = new_of(ids, metadata)
        vectors[np.isin(ids, NAMES[gone])] = np.nan
        return vectors

    *_, last = migrate(tmp_path / "index", embed, model="new", batch_size=64)
    assert (last.embedded, last.failed, last.items) == (197, 3, 200)
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
    assert (next(some).embedded, next(some).failed) == (64, 128)
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


@pytest.mark.parametrize(
    ("embed", "message"),
    [
        (lambda ids, _: np.ones((len(ids), 8)), "one new vector for all of the 50 items so far, expected several"),
        (lambda ids, _: np.zeros((len(ids), 8)), "one new vector for all"),
        (lambda ids, _: NEW[: len(ids)] * 1j, "new vectors of type complex64, expected real numbers"),
        (lambda ids, _: NEW[: len(ids)].astype(str), "new vectors of type <U"),
    ],
)
def test_embeddings_that_say_nothing_are_refused_before_anything_is_replaced(embed, message, tmp_path):
    saved(tmp_path / "index")
    with pytest.raises(ValueError, match=message):
        list(migrate(tmp_path / "index", embed, model="new", batch_size=50))
    assert search.load(tmp_path / "index").fingerprint == "old"
    list(migrate(tmp_path / "index", new_of, model="new", batch_size=50))
    assert_migrated(tmp_path / "index")


def test_one_vector_for_copies_of_one_item_is_right_and_for_many_batches_is_found(tmp_path):
    search.Exact(OLD[[0] * 20], model="old").save(tmp_path / "copies")
    list(migrate(tmp_path / "copies", lambda ids, _: NEW[[0] * len(ids)], model="new", batch_size=5))
    saved(tmp_path / "index")
    with pytest.raises(ValueError, match=r"all of the 2 items so far, .* Remove '.*index\.migrating' to begin again"):
        list(migrate(tmp_path / "index", lambda ids, _: NEW[:1], model="new", batch_size=1))


@pytest.mark.parametrize("kind", [search.Exact, search.Lance])
def test_files_of_others_stay(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(lance, "_SECONDS_TO_LEAVE", 0)
    saved(tmp_path / "index", kind=kind)
    work = tmp_path / "index.migrating"
    states = migrate(tmp_path / "index", new_of, model="new", batch_size=150)
    next(states)
    own = [work / "notes.txt", work / "2024.npz", work / "index" / "mine.txt"]
    for file in own:
        file.write_text("mine")
    with pytest.raises(FileExistsError, match=r"a folder with 'mine\.txt'"):
        list(states)
    assert search.load(tmp_path / "index").fingerprint == "old"
    own.pop().rename(tmp_path / "mine.txt")
    list(migrate(tmp_path / "index", new_of, model="new", batch_size=150))
    assert search.load(tmp_path / "index").fingerprint == "new"
    assert sorted(work.iterdir()) == sorted(own)
    with pytest.raises(FileExistsError, match="a folder of something else"):
        migrate(tmp_path / "index", new_of, model="third")


def test_a_migration_that_was_ended_after_the_exchange_is_cleaned_by_one_to_another_model(tmp_path, monkeypatch):
    saved(tmp_path / "index")
    with monkeypatch.context() as patch:
        patch.setattr("tfdml.search.upgrades.migration._Work.remove", lambda work: None)
        list(migrate(tmp_path / "index", new_of, model="new"))
    assert (tmp_path / "index.migrating" / "run.json").exists()
    for model in ("new", "old"):
        assert search.load(tmp_path / "index", model=model, other_model=True).fingerprint == "new"
    states = migrate(tmp_path / "index", lambda ids, _: OLD[[int(id[-3:]) for id in ids]], model="third")
    assert not (tmp_path / "index.migrating").exists()
    list(states)
    assert search.load(tmp_path / "index").fingerprint == "third"


@pytest.mark.parametrize("damage", [b"", b"no zip", None])
def test_a_damaged_batch_is_named(damage, tmp_path):
    saved(tmp_path / "index")
    states = migrate(tmp_path / "index", new_of, model="new", batch_size=50)
    next(states)
    next(states)
    states.close()
    file = tmp_path / "index.migrating" / "000000001.npz"
    file.write_bytes(file.read_bytes()[:-30] if damage is None else damage)
    with pytest.raises(
        ValueError, match=r"a damaged batch '.*000000001\.npz' .*Remove it: its items are embedded again"
    ):
        list(migrate(tmp_path / "index", new_of, model="new", batch_size=50))
    file.unlink()
    list(migrate(tmp_path / "index", new_of, model="new", batch_size=50))
    assert_migrated(tmp_path / "index")


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("requests", ["1", "2", "3"], None),
        ("requests", [datetime.date(2024, 1, 1)] * 3, None),
        ("requests", [[1]] * 3, None),
        ("vector", [["embedded"]] * 3, None),
        ("vector", ["embedded", "mine", None], None),
        ("vector", [1, 2, 3], None),
        ("requests", [None, None, None], [2, 1, 0]),
        ("requests", [True, None, False], [0, 2, 1]),
        ("requests", [0.5, float("nan"), -1.0], [0, 1, 2]),
        ("requests", [2**60, 2**62, None], [1, 0, 2]),
        ("requests", [Decimal("1.5"), Decimal("2.5"), None], [1, 0, 2]),
    ],
    ids=str,
)
def test_columns_that_a_migration_reads_have_numbers_or_are_refused_at_the_call(name, values, expected, tmp_path):
    search.Exact(OLD[:3], metadata={name: values}, model="old").save(tmp_path / "index")
    order = []
    call = lambda: migrate(  # noqa: E731
        tmp_path / "index", lambda ids, _: order.extend(ids) or NEW[ids], model="new"
    )
    if expected is None:
        with pytest.raises(ValueError, match=f"metadata with a column '{name}'"):
            call()
    else:
        list(call())
        assert order == expected


def test_the_recall_is_that_of_the_index_that_answers_and_says_from_how_many_items_it_is(tmp_path):
    index = search.Exact(OLD, metric="dot", model="old")
    index.save(tmp_path / "index")
    for state in migrate(tmp_path / "index", lambda ids, _: NEW[ids], model="new", batch_size=100):
        answered = search.load(tmp_path / "index", model="new").search(NEW, 1)[0][:, 0]
        assert state.recall == pytest.approx(np.mean(answered == np.arange(200)), abs=0.1)
        assert state.recall < 0.5  # longer vectors are found first
        assert f"Recall@1 {state.recall:.1%} from {state.measured} items" in str(state)
    assert state.measured == 200


def test_an_index_of_an_unknown_model_can_be_migrated(tmp_path):
    search.Exact(OLD).save(tmp_path / "index")
    for _ in migrate(tmp_path / "index", lambda ids, _: NEW[ids], model="new", batch_size=150):
        assert search.load(tmp_path / "index", model="new").fingerprint == "new"
    assert search.load(tmp_path / "index").metadata is None
