"""Entries: what is in them, what they load as, and what is found to be wrong with them."""

import io
import json
import shutil
import subprocess
import zipfile

import h5py
import keras
import numpy as np
import pytest

from tests.damage import flip
from tests.zoo.conftest import ABOUT, DATA, IMAGES, LABELS, network
from tfdml import evaluate, export, metrics, models, search, zoo
from tfdml._core import checksums
from tfdml.zoo import publishing
from tfdml.zoo.entries import EntryRef, load_reference
from tfdml.zoo.index import write_table

FILES = [
    "1/assets.extra/SHA256SUMS",
    "1/assets.extra/fingerprint.json",
    "1/assets.extra/preprocessing.json",
    "1/assets.extra/tf_serving_warmup_requests",
    "1/assets.extra/versions.json",
    "1/fingerprint.pb",
    "1/saved_model.pb",
    "1/variables/variables.data-00000-of-00001",
    "1/variables/variables.index",
    "README.md",
    "SHA256SUMS",
    "model.json",
    "model.keras",
]

pytestmark = pytest.mark.slow  # the entries of the fixture take seconds


def test_an_entry_is_these_files_and_sha256sum_finds_them_whole(made):
    entry = made / "squares"
    found = sorted(path.relative_to(entry).as_posix() for path in entry.rglob("*") if path.is_file())
    assert found == FILES
    done = subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=entry, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.count(": OK\n") == len(FILES) - 1
    assert sorted(place.name for place in made.iterdir()) == ["README.md", "pair", "squares"]


def test_a_model_loads_as_it_was_without_its_optimizer_and_its_loss(made, trained):
    loaded = zoo.load("squares", root=made)
    assert isinstance(loaded, models.EmbeddingModel)
    assert not loaded.compiled
    np.testing.assert_array_equal(loaded.predict_on_batch(IMAGES), trained.predict_on_batch(IMAGES))
    with zipfile.ZipFile(made / "squares" / "model.keras") as file:
        weights = h5py.File(io.BytesIO(file.read("model.weights.h5")))
        sizes = []
        weights.visititems(lambda _, thing: sizes.append(thing.size) if isinstance(thing, h5py.Dataset) else None)
    assert "optimizer" not in weights
    assert sum(sizes) == loaded.count_params() == zoo.card("squares", root=made).parameters


def test_the_saved_model_and_the_keras_model_of_an_entry_agree(made):
    found = export.load(made / "squares" / "1").predict_on_batch(IMAGES)
    np.testing.assert_allclose(found, zoo.load("squares", root=made).predict_on_batch(IMAGES), atol=1e-6)
    model = zoo.load("pair", root=made)
    for name, tower in zip(("query", "gallery"), model.towers, strict=True):
        found = export.load(made / "pair" / name / "1").predict_on_batch(IMAGES)
        np.testing.assert_allclose(found, tower.predict_on_batch(IMAGES), atol=1e-6)


def test_a_loaded_model_is_fine_tuned(made):
    model = zoo.load("squares", root=made)
    before = model.get_weights()
    model.compile("sgd", loss="mse")
    model.train_on_batch(IMAGES, np.zeros((24, 4)))
    assert any((one != other).any() for one, other in zip(before, model.get_weights(), strict=True))


def test_a_card_has_the_numbers_of_an_evaluation(made, trained):
    card, expected = zoo.card("squares", root=made), evaluate(trained, DATA)
    assert card.metrics.keys() == expected.metrics.keys()
    for name, found in card.metrics.items():
        np.testing.assert_allclose(found, expected.metrics[name], atol=5e-6)
    assert (card.protocol, card.queries, card.items, card.classes) == ("squares/exact-cosine/v1", 24, 24, 6)
    assert (card.input, card.dimension, card.towers, card.seed) == ((8, 8, 1), 4, (), 3)
    assert card.sizes["model.keras"] == (made / "squares" / "model.keras").stat().st_size
    assert card.training == {"loss": "ArcFaceLoss", "steps": 1}
    assert card.preprocessing.shape == (8, 8, 1)
    assert card.timing.milliseconds > 0
    assert (card.timing.batch_size, card.timing.hardware) == (32, card.hardware)


def test_the_page_of_an_entry_says_what_the_card_says(made):
    text, card = (made / "squares" / "README.md").read_text(), zoo.card("squares", root=made)
    mean = card.metrics["map@r"]
    assert f"| map@r | {mean.text()} |" in text
    again = '`tfdml.zoo.evaluate("squares", data=...)` measures them again'
    for phrase in (again, 'tfdml.zoo.load("squares")', "python train.py --fast", "CC0-1.0", "ArcFaceLoss", "None."):
        assert phrase in text
    assert "## Limitations" not in text
    assert "## Limitations\n\nSmall." in (made / "pair" / "README.md").read_text()


def test_an_evaluation_measures_the_model_again(made):
    found = zoo.evaluate("squares", root=made, data=DATA)
    assert found.agrees
    assert found.difference < 1e-5
    vectors = zoo.load("squares", root=made).predict_on_batch(IMAGES)
    expected = metrics.retrieval(vectors, LABELS)
    assert found.metrics["map@r"].value == pytest.approx(expected["map@r"])
    assert f"{100 * expected['map@r']:.1f}" in str(found)
    assert zoo.evaluate("pair", root=made, data=DATA, gallery=DATA).agrees


def test_numbers_that_differ_by_more_than_a_tenth_of_a_point_do_not_agree(root):
    file = root / "squares" / "model.json"
    for step, agrees in ((0.0009, True), (0.0012, False)):
        shutil.rmtree(root / "squares")
        shutil.copytree(root / "pair", root / "squares")
        content = json.loads(file.read_text())
        content["metrics"]["map@r"]["value"] += step
        file.write_text(json.dumps(content))
        checksums.write_checksums(root / "squares")
        found = zoo.evaluate("squares", root=root, data=DATA, gallery=DATA)
        assert found.agrees == agrees
        assert ("NOT" in str(found)) != agrees


def test_data_of_another_protocol_are_refused_and_unknown_data_are_asked_for(made):
    with pytest.raises(ValueError, match="expected data=, the labeled set with this protocol"):
        zoo.evaluate("squares", root=made)
    with pytest.raises(ValueError, match=r"protocol 'own-data/.*expected 'squares/exact-cosine/v1'"):
        zoo.evaluate("squares", root=made, data=DATA.take(np.arange(8)).select_classes([0, 1]))


@pytest.mark.parametrize("name", ["1/saved_model.pb", "README.md", "SHA256SUMS", "model.keras"])
def test_a_flipped_bit_in_any_file_is_found_named_and_stops_loading(root, name, monkeypatch):
    path = root / "squares" / name
    monkeypatch.setattr(keras.saving, "load_model", lambda *_, **__: pytest.fail("parsed before it was checked"))
    for bit in np.random.default_rng(0).integers(8 * path.stat().st_size, size=2).tolist():
        flip(path, bit)
        problems = zoo.check("squares", root=root)
        assert problems
        if name != "SHA256SUMS":
            assert problems == (f"{name}: differs from SHA256SUMS",)
            with pytest.raises(ValueError, match=name):
                zoo.load("squares", root=root)
        flip(path, bit)
    assert zoo.check("squares", root=root) == ()


def test_an_index_beside_a_model_changes_by_itself(root):
    entry, before = root / "squares", zoo.card("squares", root=root)
    index = search.Exact(np.eye(3), model="this")
    index.save(entry / "index")
    for path in ("thumbnails.npz", ".lock-index", "index.migrating/run.json", ".partial-7-0123abcd-index/new/ids.npy"):
        (entry / path).parent.mkdir(parents=True, exist_ok=True)
        (entry / path).write_bytes(b"any")
    index.remove([0])
    index.save(entry / "index")
    assert zoo.check("squares", root=root) == ()
    assert zoo.load("squares", root=root) is not None
    assert zoo.card("squares", root=root) == before
    (entry / "other").write_bytes(b"any")
    assert zoo.check("squares", root=root) == ("other: not in SHA256SUMS",)


def test_missing_and_extra_files_and_links_are_found(root):
    entry = root / "squares"
    (entry / "model.keras").rename(entry / "other.keras")
    (entry / "README.md").unlink()
    (entry / "README.md").symlink_to(entry / "model.json")
    (entry / ".hidden").write_text("")
    (entry / "1" / "variables" / "extra").mkdir()
    (entry / "1" / "variables" / "extra" / "file").write_text("")
    assert zoo.check("squares", root=root) == (
        ".hidden: not in SHA256SUMS",
        "1/variables/extra/file: not in SHA256SUMS",
        "README.md: not a regular file",
        "model.keras: missing",
        "other.keras: not in SHA256SUMS",
    )


LINE = f"{'0' * 64}  "
OUTSIDE = ["../x", "/x", "a/../../x", "a//x", ".", "a/.", "C:\\x", "a\nb", " x", "a b"]
OTHER_LINES = ["# comment\n", "\n", f"{LINE}a\n", f"{LINE}A\n", f"{'0' * 64} *b\n"]


@pytest.mark.parametrize("more", [*(f"{LINE}{name}\n" for name in OUTSIDE), *OTHER_LINES])
def test_checksums_of_files_outside_the_entry_or_with_another_line_are_refused(more):
    whole = f"{LINE}a\n{LINE}a/..b.c\n"
    assert checksums.parsed(whole.encode()) == {"a": "0" * 64, "a/..b.c": "0" * 64}
    with pytest.raises(ValueError, match="of another form"):
        checksums.parsed((whole + more).encode())


def test_code_inside_a_model_is_refused(root):
    inputs = keras.Input((8, 8, 1))
    model = keras.Model(inputs, keras.layers.Flatten()(keras.layers.Lambda(lambda x: x + 1)(inputs)))
    model.save(root / "squares" / "model.keras")
    checksums.write_checksums(root / "squares")
    with pytest.raises(ValueError, match="safe_mode"):
        zoo.load("squares", root=root)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"towers": ["query", "gallery"]}, r"'towers' of its model\.json"),
        ({"preprocessing": {"size": 10**9, "channels": 1}}, r"'preprocessing' of its model\.json"),
        (
            {"metrics": {name: {"value": 0, "low": 0, "high": 0} for name in ("recall@1", "map@r", "x")}},
            "recall@1, map@r, x",
        ),
    ],
)
def test_a_card_that_does_not_fit_its_model_is_a_value_error(changes, message, root):
    file = root / "squares" / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    checksums.write_checksums(root / "squares")
    with pytest.raises(ValueError, match=message):
        zoo.evaluate("squares", root=root, data=DATA)
    (root / "squares" / "model.keras").write_bytes(b"PK\x03\x04")
    checksums.write_checksums(root / "squares")
    with pytest.raises(ValueError, match=r"squares', whose model\.keras cannot be read"):
        zoo.load("squares", root=root)


def test_only_the_metrics_of_a_card_are_compared(root):
    file = root / "squares" / "model.json"
    card = json.loads(file.read_text())
    card["metrics"] = {name: card["metrics"][name] for name in ("recall@1", "map@r")}
    file.write_text(json.dumps(card))
    checksums.write_checksums(root / "squares")
    found = zoo.evaluate("squares", root=root, data=DATA)
    assert found.agrees
    assert set(found.metrics) == {"recall@1", "map@r"}


def test_the_table_of_a_folder_is_current_and_another_page_is_kept(root):
    text = (root / "README.md").read_text()
    assert text == zoo.list_models(root).markdown()
    row = next(line for line in text.splitlines() if line.startswith("| [squares](squares/README.md) "))
    assert row.count("|") == 9
    shutil.rmtree(root / "pair")
    assert "pair" not in write_table(root).read_text()
    (root / "README.md").write_text("# My own page\n")
    with pytest.raises(ValueError, match="another page"):
        write_table(root)


def test_wrong_names_roots_and_data_are_refused(root, trained, monkeypatch):
    monkeypatch.chdir(root.parent)
    with pytest.raises(ValueError, match="name='nope', expected an entry in 'savedmodels': pair, squares"):
        zoo.load("nope")
    for name in ("../x", "a/b", "", ".hidden", "a b"):
        with pytest.raises(ValueError, match="expected letters, digits"):
            zoo.check(name, root="savedmodels")  # a name is no path out of its root
    with pytest.raises(ValueError, match=r"Received '\.\./x', expected the folder of an entry"):
        zoo.check("../x")
    for url in ("file:///etc", "ftp://host/zoo", "https://host/zoo?x=1"):
        with pytest.raises(ValueError, match="a URL of http or https"):
            zoo.load("squares", root=url)
    with pytest.raises(ValueError, match="expected a folder with entries"):
        zoo.list_models("https://host/zoo")
    with pytest.raises(ValueError, match="expected a labeled set"):
        zoo.save(trained, "x", LABELS, summary="", **ABOUT)
    assert sorted(place.name for place in root.iterdir()) == ["README.md", "pair", "squares"]


def test_an_entry_is_replaced_whole_and_an_error_leaves_the_old_one(root, monkeypatch):
    monkeypatch.chdir(root.parent)
    options = {"summary": "Flat squares.", "metric": "euclidean", **ABOUT}
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "write_checksums", fail)
        with pytest.raises(OSError, match="full"):
            zoo.save(network(dim=2), "squares", DATA, **options)
    assert (zoo.check("squares"), zoo.card("squares").dimension) == ((), 4)
    zoo.save(network(dim=2), "squares", DATA, **options)
    assert zoo.check("squares") == ()
    card = zoo.card("squares")
    assert (card.dimension, card.metric, card.protocol) == (2, "euclidean", "squares/exact-euclidean/v1")
    assert zoo.evaluate("squares", data=DATA).agrees
    vectors = zoo.load("squares").predict_on_batch(IMAGES)
    expected = metrics.retrieval(vectors, LABELS, metric="euclidean")["recall@1"]
    assert card.metrics["recall@1"].value == pytest.approx(expected, abs=1e-5)
    assert sorted(place.name for place in root.iterdir()) == ["README.md", "pair", "squares"]


def fail(folder):
    raise OSError("the disk is full")


def test_names_folders_and_towers_are_models_of_the_command_line(root, monkeypatch):
    monkeypatch.chdir(root.parent)
    expected = zoo.load("squares").predict_on_batch(IMAGES)
    for text in ("squares", "savedmodels/squares", "savedmodels/squares/", str(root / "squares")):
        model, view = load_reference(EntryRef.parse(text))
        np.testing.assert_array_equal(model.predict_on_batch(IMAGES), expected)
        assert view.shape == (8, 8, 1)
    towers = zoo.load("pair").towers
    for tower, name in zip(towers, ("query", "gallery"), strict=True):
        found = load_reference(EntryRef.parse(f"pair/{name}"))[0].predict_on_batch(IMAGES)
        np.testing.assert_array_equal(found, tower.predict_on_batch(IMAGES))
    monkeypatch.chdir(root)
    np.testing.assert_array_equal(load_reference(EntryRef.parse("squares"))[0].predict_on_batch(IMAGES), expected)
    assert not EntryRef.parse("nope").exists()
    assert not EntryRef.parse("pair/nope").exists()
    with pytest.raises(ValueError, match="Received pair, expected pair/query or pair/gallery"):
        load_reference(EntryRef.parse("pair"))
    with pytest.raises(ValueError, match="Received squares/query, expected squares, which has one network"):
        load_reference(EntryRef.parse("squares/query"))
