"""The command line: results on stdout, messages on stderr, exit codes."""

import datetime
import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import keras
import numpy as np
import pyarrow
import pytest
import tensorflow as tf

from tests.worlds import write_png
from tfdml import cli, datasets, export, metrics, models, search
from tfdml.cli import inputs
from tfdml.cli.references import Reference
from tfdml.datasets import Preprocessing

VIEW = Preprocessing(size=8, channels=1, fit="pad")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with 24 photos of 6 classes."""
    root = tmp_path_factory.mktemp("place")
    random = np.random.default_rng(0)
    for row in range(24):
        pixels = np.clip(random.normal(40 * (row // 4), 9, (10, 8, 1)), 0, 255).astype("uint8")
        write_png(root / "photos" / f"class-{row // 4}" / f"{row:02}.png", pixels)
    return root


@pytest.fixture
def here(place, tmp_path, monkeypatch):
    """A new current folder with the photos."""
    shutil.copytree(place / "photos", tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Blocks:
    """A fast model in place of the exported one: gray levels of four parts of an image."""

    fingerprint = "blocks"

    def predict_on_batch(self, x):
        return np.asarray(x, np.float32).reshape(len(x), 4, -1).mean(2) / 255 - 0.5


def decode(path):
    """In place of a Preprocessing, which takes seconds to trace."""
    file = tf.io.read_file(path)
    with tf.control_dependencies([tf.debugging.Assert(tf.strings.length(file) > 9, ["5 bytes that are not an image"])]):
        return tf.ensure_shape(tf.io.decode_png(file, channels=1), (10, 8, 1))


def read(file, box=None):
    """In place of what the reader of a Preprocessing returns."""
    is_image = len(file) > 9
    return (tf.io.decode_png(file, channels=1).numpy(), "") if is_image else (None, "5 bytes that are not an image")


decode.reader = lambda: read


@pytest.fixture
def run(here, capsys, monkeypatch):
    """Function from a command to its exit code, and what it printed on stdout and stderr. The model is a fast one."""
    (here / "model").mkdir()
    (here / "model" / "saved_model.pb").touch()
    opened = Reference.model
    fast = lambda self: (Blocks(), decode) if (self.path, self.view) == ("model", None) else opened(self)  # noqa: E731
    monkeypatch.setattr(Reference, "model", fast)
    monkeypatch.setattr(datasets, "Preprocessing", lambda size: decode)
    return command_of(capsys)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with a model, exported and as a file of Keras, to copy."""
    root = tmp_path_factory.mktemp("exported")
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    flat = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255, offset=-0.5)(inputs))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(4)(flat))
    export.saved_model(model, root / "model", preprocessing=VIEW)
    model.save(root / "model.keras")
    return root


@pytest.fixture
def real(here, exported, capsys):
    """The same with a model that was exported."""
    shutil.copytree(exported, here, dirs_exist_ok=True)
    return command_of(capsys)


def command_of(capsys):
    def run(command):
        code = cli.main(command.split())
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def neighbors(run, command):
    """What a search finds, by image."""
    return [each["neighbors"] for each in json.loads(run(f"search model {command} --json")[1])]


def embedded():
    """What the fast model embeds of the photos."""
    images = [decode(str(path)) for path in sorted(Path("photos").rglob("*.png"))]
    return Blocks().predict_on_batch(np.stack(images))


@pytest.mark.slow
def test_a_loaded_model_embeds_as_the_exported_one(real):
    model = export.load("model")
    assert model.preprocessing == VIEW
    assert model.class_names is None
    part = datasets.folder("photos", load=VIEW)
    keras_model = keras.saving.load_model("model.keras", compile=False)
    np.testing.assert_allclose(models.embed(model, part), models.embed(keras_model, part), atol=1e-5)
    assert export.load("model").fingerprint == model.fingerprint
    with pytest.raises(ValueError, match=r"images of shape \(2, 3, 8, 1\) and type uint8, expected uint8 .*8, 8, 1"):
        model.predict_on_batch(np.zeros((2, 3, 8, 1), "uint8"))
    with pytest.raises(ValueError, match="holds no SavedModel, expected a folder that"):
        export.load("photos")


@pytest.mark.parametrize("out", ["out", "out.parquet"])
def test_embed_writes_what_the_model_embeds(out, run):
    code, printed, errors = run(f"embed photos {out} --model model")
    assert (code, errors) == (0, "")
    assert printed == f"24 examples embedded in {out}, 0 skipped\n"
    found = models.read_embeddings(out)
    np.testing.assert_array_equal(found.embeddings, embedded())
    assert found.class_names == tuple(f"class-{c}" for c in range(6))


@pytest.mark.slow
def test_exported_models_and_keras_files_are_models_and_preprocessing_may_be_given(real, here):
    assert real("embed photos exported --model model")[0] == 0
    expected = models.read_embeddings("exported").embeddings
    (here / "view.json").write_text(json.dumps(VIEW.get_config()))
    (here / "model.json").write_text('{"format": "layers-model"}')  # of another tool, beside model.keras
    code, printed, _ = real("embed photos padded --model model.keras --preprocessing view.json --json --batch-size 5")
    assert code == 0
    assert json.loads(printed) == {"out": "padded", "embedded": 24, "skipped": []}
    np.testing.assert_allclose(models.read_embeddings("padded").embeddings, expected, atol=1e-5)
    assert real("embed photos stretched --model model.keras")[0] == 0
    assert np.abs(models.read_embeddings("stretched").embeddings - expected).max() > 1e-3
    (here / "RUN").mkdir()
    shutil.copytree("model", "RUN/2")
    (here / "RUN" / "settings.toml").write_text('format = "tfdml.training/1"\n')
    (here / "RUN" / "model.json").write_text("{}")  # as in a model of the zoo
    assert real("embed photos trained --model RUN")[0] == 0
    np.testing.assert_array_equal(models.read_embeddings("trained").embeddings, expected)


def table(here, rows):
    """A table of the photos with these rows."""
    paths = sorted(Path("photos").rglob("*.png"))
    lines = ["file,kind,split", *(f"{paths[row]},{row // 4},{'test' if row % 2 else 'train'}" for row in rows)]
    (here / "photos.csv").write_text("\n".join(lines))


def test_a_table_has_columns_and_splits(run, here):
    table(here, range(24))
    columns = "--path-column file --label-column kind"
    assert run(f"embed photos.csv all --model model {columns}")[0] == 0
    assert len(models.read_embeddings("all")) == 24
    assert run(f"embed photos.csv test --model model {columns} --split test")[0] == 0
    assert models.read_embeddings("test").embeddings.tolist() == embedded()[1::2].tolist()


def test_a_data_set_of_tfds_has_a_split(run, monkeypatch):
    asked = []
    answer = datasets.folder("photos", load=decode)
    monkeypatch.setattr(datasets, "tfds", lambda name, split, load: asked.append((name, split, load)) or answer)
    assert run("embed tfds:cars196:2.1.0 out --model model --split test[:10%]")[0] == 0
    assert asked == [("cars196:2.1.0", "test[:10%]", decode)]


def test_broken_and_missing_files_are_skipped_and_listed(run, here):
    table(here, range(24))
    with (here / "photos.csv").open("a") as file:
        file.write("\nbroken.png,5,test\nmissing.png,5,test\n")
    (here / "broken.png").write_bytes(b"hello")
    columns = "--path-column file --label-column kind"
    code, printed, errors = run(f"embed photos.csv out --model model {columns} --json")
    assert code == 1
    (skipped,) = json.loads(printed)["skipped"]
    assert (skipped["row"], skipped["name"]) == (24, "broken.png")
    assert "tfdml: left out of the set: 1, first missing.png: not a file" in errors
    assert "tfdml: skipped broken.png: 5 bytes that are not an image" in errors
    assert models.read_embeddings("out").rows.tolist() == list(range(24))
    code, printed, _ = run(f"check photos.csv {columns} --json")
    assert code == 1
    problems = json.loads(printed)["problems"]
    assert [problem["name"] for problem in problems] == ["missing.png", "broken.png"]


def test_evaluate_prints_the_metrics_with_their_intervals_and_writes_a_page(run, here):
    code, printed, errors = run("evaluate model photos --json")
    assert (code, errors) == (0, "")
    record = json.loads(printed)
    labels = np.arange(24) // 4
    expected = metrics.retrieval(embedded(), labels)
    per_query = metrics.retrieval(embedded(), labels, per_query=True)
    assert (record["queries"], record["skipped"], record["skipped_examples"]) == (24, 0, [])
    for name, found in record["means"]["model"].items():
        assert found["value"] == pytest.approx(expected[name])
        assert [found["low"], found["high"]] == pytest.approx(metrics.class_interval(per_query[name], labels))
    code, printed, _ = run("evaluate model photos --html report.html")
    line = next(line for line in printed.splitlines() if line.startswith("map@r"))
    low, high = (100 * record["means"]["model"]["map@r"][name] for name in ("low", "high"))
    assert line.split(maxsplit=1)[1] == f"{100 * expected['map@r']:.1f} [{low:.1f}, {high:.1f}]"
    assert (here / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_evaluate_searches_photographs_without_a_label_as_distractors(run, here):
    for row in (0, 9, 18):  # nearly a copy of each is nearer to it than its own class
        pixels = tf.io.decode_png(Path(f"photos/class-{row // 4}/{row:02}.png").read_bytes()).numpy()
        pixels[0, 0] += 3
        write_png(f"photos/{row}.png", pixels)
    folders = [path.parent.name for path in sorted(Path("photos").rglob("*.png"))]  # as embedded has them
    labels = np.array([-1 if folder == "photos" else int(folder[-1]) for folder in folders])
    vectors = embedded().astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    recalls, precisions = [], []
    for row in np.flatnonzero(labels >= 0):
        order = [other for other in np.argsort(-(vectors @ vectors[row]), kind="stable") if other != row]
        is_right = labels[order] == labels[row]
        recalls.append(is_right[0])
        precisions.append(sum(is_right[: rank + 1].mean() for rank in range(3) if is_right[rank]) / 3)
    code, printed, errors = run("evaluate model photos --distractors --json")
    assert (code, errors) == (0, ""), errors
    record = json.loads(printed)
    assert record["queries"] == 24
    assert record["means"]["model"]["recall@1"]["value"] == pytest.approx(np.mean(recalls))
    assert record["means"]["model"]["map@r"]["value"] == pytest.approx(np.mean(precisions))
    code, printed, errors = run("evaluate model photos --json")
    assert "3 images without a label are left out; --distractors searches them" in errors
    assert json.loads(printed)["means"]["model"]["recall@1"]["value"] > np.mean(recalls)


@pytest.mark.slow
def test_search_finds_the_image_itself_in_embeddings_and_in_an_index(run):
    run("embed photos out --model model")
    image = "photos/class-2/09.png"
    first, second = neighbors(run, f"out {image} {PHOTO} -k 3")
    metadata = {"label": "class-2", "path": image}
    assert first[0] == {"id": 9, "score": pytest.approx(1.0), "metadata": metadata}
    assert second[0]["id"] == 1
    expected, _ = search.Exact(embedded()).search(embedded()[[9]], 3)
    assert [neighbor["id"] for neighbor in first] == expected[0].tolist()
    search.Exact(embedded(), ids=np.arange(24) + 100).save("index")
    code, printed, _ = run(f"search model index {image}")
    lines = printed.splitlines()
    assert (code, lines[0], len(lines)) == (0, image, 11)
    assert lines[1].split() == ["1.00000", "109"]
    columns = {"label": [f"l{i}" for i in range(24)], "id": [-1] * 24, "day": [datetime.date(2024, 1, 2)] * 24}
    search.Exact(embedded(), [f"photo {i}" for i in range(24)], metadata=columns).save("index")
    assert run(f"search model index {image} -k 1")[1].splitlines()[1].split() == ["1.00000", "photo", "9", "l9"]
    (found,) = neighbors(run, f"index {image} -k 1")[0]
    metadata = {"label": "l9", "id": -1, "day": "2024-01-02"}
    assert found == {"id": "photo 9", "score": pytest.approx(1.0), "metadata": metadata}


def test_search_prints_the_probability_of_a_score_and_says_where_it_is_not_known(run, monkeypatch):
    curve, ones = (0.0, np.log(9.0)), (1.0, 1.0)  # at even odds, 0.5 at a cosine of 0, and 0.9 of 1
    facts = {"prior": 0.5, "metric": "cosine", "model": "blocks", "pairs": 100, "classes": 10}
    calibration = metrics.ScoreCalibration(scores=(0.0, 1.0), ratio=(curve,) * 3, rank_1=(ones,) * 3, **facts)
    search.Exact(embedded(), model="blocks").save("index")
    command = f"search model index {PHOTO} -k 1"
    code, _, error = run(f"{command} --prior 0.1")
    assert (code, "--prior 0.1 for a model without a calibration" in error) == (2, True)
    monkeypatch.setattr(Blocks, "calibration", calibration, raising=False)
    assert run(command)[1].splitlines()[1].split()[:2] == ["1.00000", "90.0%"]
    (item,) = neighbors(run, f"index {PHOTO} -k 1 --prior 0.1")[0]
    assert item["probability"] == pytest.approx(0.5)  # 9 / 9 to 1
    search.Exact(embedded(), model="blocks", metric="dot").save("dot")
    code, printed, error = run(f"search model dot {PHOTO} -k 1")
    assert (code, "%" in printed) == (0, False)
    assert (
        "no probability beside the scores: Received a calibration of the metric 'cosine' for scores of 'dot'" in error
    )


def test_search_takes_an_index_of_another_model_by_an_option_and_its_own_without(run):
    search.Exact(embedded(), model="circles").save("index")
    assert run(f"search model index {PHOTO} -k 1 --other-model")[0] == 0
    run("embed photos out --model model")
    assert models.read_embeddings("out").fingerprint == "blocks"
    assert run(f"search model out {PHOTO} -k 1")[0] == 0


@pytest.mark.slow
def test_search_finds_only_items_with_the_wanted_values(run):
    image = "photos/class-2/09.png"
    columns = {"label": [f"l{i % 3}" for i in range(24)], "price": np.arange(24) // 2}
    search.Exact(embedded(), metadata=columns).save("index")

    def ids(where):
        return {found["id"] for found in neighbors(run, f"index {image} {where}")[0]}

    assert ids("--where price=3 --where price=4") == {6, 7, 8, 9}
    assert ids("--where price=3 --where price=4 --where label=l0") == {6, 9}
    assert len(ids("--where label=l0 --where label=l1")) == 10
    run("embed photos out --model model")
    (found,) = neighbors(run, f"out {image} -k 1 --where label=class-1")[0]
    assert found["metadata"]["label"] == "class-1"


@pytest.mark.slow
def test_a_box_in_a_photo_is_searched_and_embedded_as_the_photo_of_its_object(run, monkeypatch):
    view = Preprocessing(size=(10, 8), channels=1)
    monkeypatch.setattr(Reference, "model", lambda self: (Blocks(), view))
    photos = [tf.io.decode_png(tf.io.read_file(f"photos/class-{row // 4}/{row:02}.png")) for row in (9, 1)]
    write_png("both.png", tf.concat(photos, axis=1))
    search.Exact(embedded(), model="blocks").save("index")
    for box, id in (("0 0 8 10", 9), ("8 0 16 10", 1)):
        (found,) = neighbors(run, f"index both.png --box {box} -k 1")[0]
        assert (found["id"], found["score"]) == (id, pytest.approx(1))
    for box in ("8 0 8 10", "0 0 0.5 1"):
        code, printed, errors = run(f"search model index both.png --box {box}")
        assert (code, printed) == (2, "")
        reason = f"the box ({', '.join(box.split())}) of an image of 16 x 10 pixels"
        assert f"IMAGE: Received both.png: {reason}" in errors
    Path("table.csv").write_text("path,label,l,u,r,d\nboth.png,a,0,0,8,10\nboth.png,b,8,0,16,10\n")
    assert run("embed table.csv objects --model model --box-columns l u r d")[0] == 0
    np.testing.assert_allclose(models.read_embeddings("objects").embeddings, embedded()[[9, 1]], atol=1e-6)
    assert Reference("objects").index().metadata["box"].to_pylist() == [[0, 0, 8, 10], [8, 0, 16, 10]]
    table = pyarrow.table({"path": ["both.png"] * 2, "box": [[8.0, 0, 16, 10], [0, 0, 8, 10]]})
    vectors = inputs.embedder_of_paths(Blocks(), view, 8)(np.arange(2), table)
    np.testing.assert_allclose(vectors, embedded()[[1, 9]], atol=1e-6)
    table = pyarrow.table({"path": ["both.png"] * 2, "box": [[8.0, 0, 16, 10], None]})
    with pytest.raises(ValueError, match="1 item without a box, expected a box in the column box of each item"):
        inputs.embedder_of_paths(Blocks(), view, 8)(np.arange(2), table)


@pytest.mark.slow
def test_search_finds_each_item_of_a_column_once(run):
    columns = {"product": [f"p{i // 4}" for i in range(24)], "price": np.arange(24) % 4}
    search.Exact(embedded(), metadata=columns).save("index")
    command = "index photos/class-2/09.png --item-column product"
    (found,) = neighbors(run, command)
    assert sorted(one["metadata"]["product"] for one in found) == [f"p{i}" for i in range(6)]
    assert found[0]["id"] == 9
    (found,) = neighbors(run, f"{command} -k 2 --where price=3")
    assert [one["metadata"]["price"] for one in found] == [3, 3]
    (found,) = neighbors(run, f"{command} --best 4")
    unit = embedded() / np.linalg.norm(embedded(), axis=1, keepdims=True)
    means = np.sort((unit @ unit[9]).reshape(6, 4).mean(axis=1))[::-1]
    np.testing.assert_allclose([one["score"] for one in found], means, atol=1e-5)


def test_check_lists_duplicates_and_is_quiet_about_good_sets(run, here):
    assert run("check photos") == (0, "24 examples, 0 with a problem\n", "")
    copy = here / "more" / "class-0" / "copy.png"
    copy.parent.mkdir(parents=True)
    for row in (1, 2):
        (copy.parent / f"{row}.png").write_bytes(Path("photos/class-0/01.png").read_bytes())
    (copy.parent / "notes.txt").write_text("seen in May")
    code, printed, errors = run("check more")
    assert code == 1
    assert printed.splitlines() == [
        "2 examples, 1 with a problem",
        "  more/class-0/2.png  the same content as row 0, more/class-0/1.png",
        "1 left out of the set:",
        "  more/class-0/notes.txt  suffix '.txt'",
    ]
    assert errors == ""


def bad(here):
    """Things that are not what their names say, or do not fit the model."""
    (here / "empty").mkdir()
    (here / "no-images" / "class").mkdir(parents=True)
    (here / "damaged").mkdir()
    (here / "broken" / "class").mkdir(parents=True)
    for name in ("text.keras", "damaged/saved_model.pb", "text.parquet", "text.png", "broken/class/1.png"):
        (here / name).write_text("hello")
    (here / "view.json").write_text('{"sides": 3}')
    for row in range(2):
        shutil.copytree(f"photos/class-{row}", f"single/{row}", ignore=lambda _, names: sorted(names)[1:])
    search.Exact(np.eye(3)).save(here / "of-dim-3")
    search.Exact(embedded(), model="circles").save(here / "of-circles")
    columns = {"label": [f"l{i % 3}" for i in range(24)], "price": np.arange(24) // 2}
    search.Exact(embedded(), metadata=columns, model="blocks").save(here / "priced")


PHOTO = "photos/class-0/01.png"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("embed empty out --model model", 2, "SET='empty': Received path='empty', which has no image"),
        ("check no-images", 2, "SET='no-images': Received path='no-images', which has no image"),
        ("check text.parquet", 2, "SET='text.parquet'"),
        ("check tfds:no_such_set", 2, "no --split, expected --split"),
        ("check photos --split test", 2, "SET='photos': "),
        ("evaluate text.keras photos", 2, "MODEL='text.keras': "),
        ("evaluate damaged photos", 2, "MODEL='damaged': Received path='damaged', a SavedModel that cannot be read"),
        ("evaluate model photos --preprocessing view.json", 2, "--preprocessing view.json: "),
        ("evaluate model broken", 1, "1 example and 0 that can be loaded (first broken/class/1.png: 5 bytes that are"),
        ("evaluate model single", 1, "2 queries without a relevant item"),
        ("embed photos photos --model model", 1, "which is not a file of an earlier version"),
        ("embed photos out.npy --model model", 1, "expected a .parquet file, or a folder"),
        ("search model of-dim-3 text.png", 2, "IMAGE: Received text.png: 5 bytes that are not an image"),
        (f"search model of-dim-3 {PHOTO}", 1, "queries of dim 4, expected 3 as in the index"),
        (f"search model of-dim-3 {PHOTO} -k 4", 1, "expected"),
        (f"search model of-circles {PHOTO}", 2, "expected those of model circles, as of the index"),
        (f"search model priced {PHOTO} --where color=red", 2, "column 'color', expected one of label, price"),
        (f"search model priced {PHOTO} --where price=cheap", 2, "Failed to parse string: 'cheap'"),
        (f"search model priced {PHOTO} --where label=l7", 2, "values that no item has"),
        (f"search model priced {PHOTO} --best 2", 1, "Received best=2 without items"),
        (f"search model priced {PHOTO} --item-column shop", 2, "Received items='shop', expected a column of the"),
        ("search model priced a-text --text", 2, "MODEL='model': Received a model without texts, expected hub:PRES"),
        ("migrate priced --to model", 2, "INDEX='priced': Received an index without a column 'path', expected paths"),
        ("export model --to onnx", 2, "MODEL='model': Received no Keras model, expected what tfdml train wrote"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(command, code, message, run, here):
    bad(here)
    found, printed, errors = run(command)
    assert (found, printed) == (code, "")
    assert message in errors
    assert errors.startswith("tfdml: error: ")
    assert errors.count("\n") == 1


def test_no_escape_sequence_of_a_file_name_or_a_class_reaches_the_terminal(run, here):
    evil = "\x1b]0;evil\x07\nforged\u202e"
    for row in range(4):
        target = here / "evil" / f"{evil}{row // 2}" / f"{evil}{row}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(f"photos/class-{row // 2}/{4 * (row // 2) + row % 2:02}.png").read_bytes())
    (target.parent / f"{evil}copy.png").write_bytes(target.read_bytes())
    assert run("embed evil index --model model")[0] == 0
    (target.parent / f"{evil}broken.png").write_text("hello")
    for command in (
        "embed evil more --model model",
        "search model index photos/class-0/00.png",
        "check evil",
        "evaluate model evil",
    ):
        _, printed, errors = run(command)
        assert r"\x1b]0;evil\x07\nforged\u202e" in printed + errors
        assert not {"\x1b", "\x07", "\u202e"} & {*printed, *errors}
        assert "forged" not in [line[:6] for line in (printed + errors).splitlines()]


class Rotated(Blocks):
    """Another model: the parts in another order."""

    fingerprint = "rotated"

    def predict_on_batch(self, x):
        return super().predict_on_batch(x)[:, [1, 2, 3, 0]]


@pytest.fixture
def migrating(run, monkeypatch):
    """The same with an index of the photos, and the model `rotated` beside the model `model`."""
    opened = Reference.model
    other = lambda self: (Rotated(), decode) if self.path == "rotated" else opened(self)  # noqa: E731
    monkeypatch.setattr(Reference, "model", other)
    Path("rotated").mkdir()
    Path("rotated/saved_model.pb").touch()
    paths = list(map(str, sorted(Path("photos").rglob("*.png"))))
    search.Exact(embedded(), metadata={"path": paths}, model="blocks").save("index")
    return run


def test_migrate_embeds_the_images_of_an_index_again(migrating):
    def codes():
        return [migrating(f"search {model} index {PHOTO}")[0] for model in ("model", "rotated")]

    assert codes() == [0, 2]
    code, printed, errors = migrating("migrate index --to rotated --batch-size 10")
    assert (code, printed) == (0, "24 items of index embedded again, 0 failed\n")
    assert "tfdml: 10 of 24 items embedded again, Recall@1 " in errors
    index = search.load("index", model="rotated")
    np.testing.assert_allclose(index.vectors, search.Exact(embedded()[:, [1, 2, 3, 0]]).vectors, atol=1e-6)
    assert index.metadata.column_names == ["path"]
    assert codes() == [2, 0]
    code, _, errors = migrating("migrate index --to rotated")
    assert code == 2
    assert "an index of the model rotated, to which it is migrated, expected an index of another model" in errors


def test_migrate_keeps_adapted_vectors_of_images_that_are_gone(migrating):
    Path("photos/class-2/09.png").unlink()
    Path("photos/class-2/08.png").write_bytes(b"no image")
    code, printed, _ = migrating("migrate index --to rotated --batch-size 10 --json")
    assert (code, json.loads(printed)) == (1, {"index": "index", "embedded": 22, "failed": 2})
    found = search.load("index").metadata["vector"].to_pylist()
    assert [row for row, origin in enumerate(found) if origin == "adapted"] == [8, 9]


def test_migrate_names_a_model_of_other_outputs(migrating, monkeypatch):
    monkeypatch.setattr(Rotated, "predict_on_batch", lambda self, x: np.zeros((len(x), 2, 2)))
    code, _, errors = migrating("migrate index --to rotated")
    assert code == 1
    assert "a model of outputs" in errors
    assert search.load("index").fingerprint == "blocks"


def test_a_server_follows_the_index_of_its_model_through_a_migration(migrating):
    states = search.migrate("index", lambda ids, _: embedded()[ids][:, [1, 2, 3, 0]], model="rotated", batch_size=12)
    old, new = (Reference("index").newer(model) for model in ("blocks", "rotated"))
    assert (old(), new()) == (None, None)
    next(states)
    assert old().fingerprint == "blocks"
    assert new().metadata["vector"].to_pylist().count("embedded") == 12
    assert (old(), new()) == (None, None)
    list(states)
    assert new().metadata.column_names == ["path"]
    with pytest.raises(ValueError, match="queries of model blocks"):
        old()
    assert (old(), new()) == (None, None)


def test_a_server_follows_a_table_at_a_url_and_tries_again_what_could_not_be_read(tmp_path, monkeypatch):
    url = f"file://{tmp_path}/products.lance"
    table, newer = search.Lance(np.eye(3), path=url, model="blocks"), Reference(url).newer("blocks")
    assert newer() is None
    table.remove([1])
    with monkeypatch.context() as broken:
        broken.setattr(search, "load", Mock(side_effect=OSError("no network")))
        with pytest.raises(OSError, match="no network"):
            newer()
    assert newer().ids.tolist() == [0, 2]
    assert newer() is None
