"""Runs from a set to a folder: every file of it, errors before anything is trained, interrupts and their end."""

import csv
import importlib
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.worlds import write_png
from tfdml import cli, training
from tfdml._core.atomic import only_writer
from tfdml._core.checksums import sha256_of
from tfdml.cli import references
from tfdml.datasets import LabeledSet
from tfdml.datasets.readers.item_files import item_table
from tfdml.embedding import in_memory
from tfdml.training import network, outputs, read_settings
from tfdml.training.network import bytes_per_image, license_of, require_memory
from tfdml.training.outputs import FROZEN, TRAINED, verdict
from tfdml.training.progress import History, KeepBest, Stages, clock
from tfdml.training.settings import TrainingSettings

module = importlib.import_module("tfdml.training.train")
TINY = {"backbone": "residual", "size": 16, "dim": 8, "classes_per_batch": 4, "examples_per_class": 2}


def labeled(sizes):
    """Noise around a color of each class."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    colors = random.integers(0, 256, (len(sizes), 1, 1, 3))[labels]
    pixels = np.clip(colors + random.normal(0, 40, (len(labels), 20, 16, 3)), 0, 255).astype("uint8")
    return LabeledSet(labels=labels, images=pixels, class_names=tuple(f"class {i}" for i in range(len(sizes))))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of 10 classes with 4 photos each, a broken one and a copy."""
    root = tmp_path_factory.mktemp("photos")
    images = labeled([4] * 10)
    for row, (pixels, label) in enumerate(zip(images.images, images.labels, strict=True)):
        write_png(root / f"class {label}" / f"{row:02}.png", pixels)
    (root / "class 0" / "broken.jpg").write_bytes(b"no image")
    shutil.copy(root / "class 1" / "04.png", root / "class 1" / "copy.png")
    return root


@pytest.fixture(scope="module")
def embedded():
    """Sizes of the batches that the networks of the run embed, before the outputs and for them."""
    return {"before": [], "outputs": []}


def counting(function, counts):
    """The function that embeds a batch; it notes the number of images."""

    def call(model, images, size):
        counts.append(size)
        return function(model, images, size)

    return call


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory, embedded):
    """The folder of a run by the command line, its record, and what it said."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr(module, "print_line", said.append)
        printed = []
        patch.setattr("builtins.print", lambda text, **_: printed.append(text))
        embed, write = in_memory._embed_batch, module.write_outputs

        def write_and_count(*arguments):
            patch.setattr(in_memory, "_embed_batch", counting(embed, embedded["outputs"]))
            return write(*arguments)

        patch.setattr(in_memory, "_embed_batch", counting(embed, embedded["before"]))
        patch.setattr(module, "write_outputs", write_and_count)
        arguments = [
            "train",
            str(photos),
            "--out",
            str(folder),
            "--steps=4",
            "--epochs=2",
            "--background=255",
            *options,
        ]
        arguments += ["--json"]
        assert cli.main(arguments) == 0
    return folder, json.loads(printed[-1]), said


@pytest.mark.slow
def test_a_run_is_exported_with_its_index_and_class_names(run, capsys):
    folder, _, _ = run
    assert cli.main(["export", str(folder), "--to", "litert", "-k", "3", "--json"]) == 0
    (written,) = json.loads(capsys.readouterr().out).values()
    assert written == f"{folder}-exports/litert"
    names = json.loads((Path(written) / "class_names.json").read_text())
    assert names == [f"class {label}" for label in range(10)]
    described = json.loads((Path(written) / "search.json").read_text())
    assert (described["vectors"], described["k"]) == (40, 3)


@pytest.mark.slow
def test_a_run_leaves_everything_that_it_promises(run, photos):
    folder, record, said = run
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("model.keras", "model.json", "README.md", "SHA256SUMS", "1", "index", "report.html", "settings.toml"),
        *("history.csv", "thumbnails.npz", "state"),
    }
    jpeg = tfdml.visualize.Thumbnails.load(folder / "thumbnails.npz")[0]
    assert tf.io.decode_jpeg(jpeg).shape == (20, 16, 3)  # the photograph, not the square of the network
    assert read_settings(folder / "settings.toml") == record["settings"]
    assert record["settings"].items() >= {**TINY, "steps": 4, "epochs": 2, "weights": "none", "tuning": "all"}.items()
    assert tfdml.export.load(folder).preprocessing.background == 255
    assert any(line.startswith("No probability beside the scores: Received 8 matched") for line in said)
    assert said[0] == "40 usable images of 10 classes, 4 images each; 2 left out"
    assert [line for line in said if line.startswith("  size")] == [
        "  size                16                  as given"
    ]
    rows = list(csv.DictReader((folder / "history.csv").read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    before, *values = [float(row["val_map@r"]) for row in rows]
    assert record["best_epoch"] == (1 + int(np.argmax(values)) if max(values) >= before else 0)
    measured = {name: record["metrics"][name]["map@r"] for name in ("trained", "frozen")}
    assert measured["trained"]["value"] == pytest.approx(max(values), abs=1e-5)
    assert measured["frozen"] == {"value": pytest.approx(before, abs=1e-5), "low": None, "high": None}
    assert not any(line.startswith("  lora_rank") for line in said)
    sentence = said[-1]
    assert "Training did not help" in sentence or "needs 6 classes or more, and there are 2" in sentence
    for page in ("README.md", "report.html"):
        assert sentence in (folder / page).read_text()


@pytest.mark.slow
def test_an_evaluation_of_the_set_of_a_run_is_of_the_part_held_back_and_says_so(
    run, photos, tmp_path, monkeypatch, capsys
):
    """A copy of the set by the export, the set by the network as without TensorFlow, a part of it by the Keras file."""
    folder, record, _ = run
    copy, page = tmp_path / "copy", tmp_path / "page.html"

    def evaluated(data, model=folder, *options):
        assert cli.main(["evaluate", str(model), str(data), "--json", *options]) in (0, 1)
        return json.loads(capsys.readouterr().out)

    shutil.copytree(photos, copy)
    assert not isinstance(references.Reference(str(folder)).model()[0], keras.Model)
    by_export = evaluated(copy, folder, "--html", str(page))
    with monkeypatch.context() as patch:
        patch.setattr(references, "has_tensorflow", lambda: False)
        assert isinstance(references.Reference(str(folder)).model()[0], keras.Model)
        by_network = evaluated(photos)
    sentence = f"{folder} was trained on a part of this set: the numbers are of its validation part, 8 images that"
    assert by_export["means"]["model"] == record["metrics"]["trained" if record["best_epoch"] else "frozen"]
    assert all(sentence in found["note"] for found in (by_export, by_network))
    assert by_export["note"] in page.read_text()
    for name, each in by_export["means"]["model"].items():
        assert by_network["means"]["model"][name]["value"] == pytest.approx(each["value"])
    shutil.rmtree(copy / "class 0")
    for path in (copy / "class 1").iterdir():
        write_png(path, 255 - tf.io.decode_png(path.read_bytes()))
    assert evaluated(photos, folder / "model.keras")["means"] == by_network["means"]
    assert evaluated(copy, folder / "model.keras")["note"].startswith(
        f"32 of 37 images are in the set of {folder}, which was trained on a part"
    )


@pytest.mark.slow
def test_the_outputs_embed_each_image_once(run, embedded):
    assert sum(embedded["before"]) == 3 * 8  # the validation part before training, and after each of two epochs
    assert sum(embedded["outputs"]) == 40


@pytest.mark.slow
def test_the_outputs_are_said_while_they_are_written_with_their_shares(run):
    _, _, said = run
    begin = said.index("Measuring, indexing and exporting the best network")
    stages, shares = said[begin + 1 : begin + 7], said[begin + 7]
    assert [line.split(":")[0] for line in stages] == [f"  {number} of 6" for number in range(1, 7)]
    assert stages[0] == "  1 of 6: embedding 40 images"
    assert re.fullmatch(r"  \d:\d\d in all: embedding \d+%, index \d+%, .*, card \d+%", shares)


@pytest.mark.parametrize("split_by", ["class", "image"])
def test_a_run_that_training_did_not_help_embeds_the_images_that_it_has_not_measured(tmp_path, split_by):
    data = labeled([4] * 10)
    settings = replace_settings(split_by=split_by, test=0.2)
    plan = module.new_plan(data, vars(settings), None)
    before = network.frozen_network(plan.settings)
    vectors = outputs.before_training(tmp_path, plan)
    expected = tfdml.models.embed(before, plan.images)
    measured = np.isin(np.arange(40), plan.measured_rows)
    np.testing.assert_allclose(vectors, np.where(measured[:, None], expected, 0), atol=1e-5)
    assert measured.sum() == (16 if split_by == "class" else 40)
    run = outputs.finished_run(tmp_path, before, 0, plan)
    np.testing.assert_allclose(run.embeddings, expected, atol=1e-5)
    np.testing.assert_allclose(run.other(), vectors, atol=1e-5)  # here, the trained network is the same one
    assert (run.exported, list(run.evaluation.means)) == (FROZEN, [FROZEN, TRAINED])
    assert run.verdict.startswith("Training did not help: no epoch reached the MAP@R of the network before training")


@pytest.mark.slow
def test_the_folder_is_an_entry_of_the_zoo(run, photos):
    folder, record, _ = run
    assert tfdml.zoo.check(folder.name, root=folder.parent) == ()
    card = tfdml.zoo.card(folder.name, root=folder.parent)
    exported = record["metrics"]["trained" if record["best_epoch"] else "frozen"]
    assert card.metrics["map@r"].value == pytest.approx(exported["map@r"]["value"], abs=1e-5)
    assert card.preprocessing.shape == (16, 16, 3)
    assert isinstance(tfdml.zoo.load(folder.name, root=folder.parent), tfdml.models.EmbeddingModel)


@pytest.mark.slow
def test_the_lines_of_the_card_run_where_the_run_was_trained(run, monkeypatch):
    folder, *_ = run
    monkeypatch.chdir(folder.parent)
    (lines,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), flags=re.DOTALL)
    names = {"images": np.zeros((2, 16, 16, 3), "uint8")}
    exec(lines, names)
    assert names["embeddings"].shape == (2, 8)
    for path in (folder, f"../{folder.parent.name}/run"):
        assert tfdml.zoo.card(path).name == "run"
        assert tfdml.zoo.check(path) == ()
    with pytest.raises(ValueError, match=r"'\./gone', expected the folder of an entry, with model\.json"):
        tfdml.zoo.load("./gone")


def test_a_run_in_the_place_of_a_set_is_an_error_that_says_how_to_go_on(tmp_path, capsys):
    (tmp_path / "settings.toml").write_text('format = "tfdml.training/1"')
    with pytest.raises(ValueError, match=r"Received the run of tfdml train .*--resume"):
        training.train(tmp_path, tmp_path.parent / "other")
    assert cli.main(["check", str(tmp_path)]) == 2
    assert "Received the run of tfdml train" in capsys.readouterr().err


@pytest.mark.slow
def test_the_export_finds_a_photo_by_itself(run, photos):
    folder, *_ = run
    path = photos / "class 3" / "12.png"
    answer = tf.saved_model.load(folder / "1").signatures["search_bytes"](images=tf.constant([path.read_bytes()]))
    payload = json.loads(answer["payload"].numpy()[0, 0])
    assert payload == {"class": "class 3", "path": f"{photos.name}/class 3/12.png"}, "no absolute path for clients"
    index = tfdml.search.load(folder / "index")
    assert len(index) == 40
    (item,) = index.metadata.take([answer["ids"].numpy()[0, 0]]).to_pylist()
    own = {"_root": str(photos.parent), "_size": path.stat().st_size, "_checksum": sha256_of(path)[:16]}
    assert item == payload | own


def without_outputs(monkeypatch):
    """Runs that end with the best epoch, without the seconds of an export."""

    def write(folder, best, best_epoch, plan, command, log):
        evaluation = tfdml.evaluate({TRAINED: best}, plan.parts[plan.reported], gallery=plan.gallery)
        return SimpleNamespace(model=best, evaluation=evaluation, verdict="", exported=TRAINED)

    monkeypatch.setattr(module, "write_outputs", write)


def stops_at(epoch):
    """A printer of lines that interrupts the run at the line of an epoch."""

    def print_line(text):
        if text.startswith(f"epoch   {epoch} "):
            raise KeyboardInterrupt

    return print_line


@pytest.mark.slow
def test_a_repeated_run_that_is_interrupted_resumes_to_the_same_bits(tmp_path, monkeypatch):
    without_outputs(monkeypatch)
    data, options = labeled([4] * 10), {**TINY, "steps": 3, "epochs": 3, "loss": "proxy-anchor"}
    whole = training.train(data, tmp_path / "whole", verbose=0, **options)
    monkeypatch.setattr(network, "device", lambda: "gpu")
    with monkeypatch.context() as patch:
        patch.setattr(module, "print_line", stops_at(2))
        cut = training.train(data, tmp_path / "cut", config=whole.folder / "settings.toml")
    assert cut.settings == whole.settings
    assert (cut.epochs, whole.epochs) == (2, 3)  # the second epoch is not in the checkpoint, and is trained again
    with pytest.raises(ValueError, match="a set that has changed"):
        training.train(data.take(np.arange(36)), cut.folder, resume=True, verbose=0)
    with pytest.raises(ValueError, match="resume=True and quick"):
        training.train(data, cut.folder, resume=True, quick=True)
    with only_writer(cut.folder, "out"), pytest.raises(BlockingIOError, match=f"process {os.getpid()} on"):
        training.train(data, cut.folder, resume=True)
    shutil.rmtree(whole.folder / "state")  # as of a run that was killed in its first epoch
    again = training.train(data, whole.folder, resume=True, verbose=0)
    assert (again.epochs, again.best_epoch) == (3, whole.best_epoch)
    resumed = training.train(data, cut.folder, resume=True, verbose=0)
    assert (resumed.epochs, resumed.best_epoch) == (3, whole.best_epoch)
    for name in ("training", "best"):
        models = [keras.saving.load_model(run.folder / "state" / f"{name}.keras") for run in (whole, cut)]
        for ours, theirs in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_a_run_traces_each_network_once_and_the_timed_steps_leave_no_trace_in_the_weights(tmp_path, monkeypatch):
    without_outputs(monkeypatch)
    traced, data = {"compute_loss": [], "predict_step": []}, labeled([4] * 10)
    for name, networks in traced.items():
        function = getattr(tfdml.models.EmbeddingModel, name)  # called as a step is traced
        counted = lambda model, *x, f=function, n=networks, **options: n.append(model) or f(model, *x, **options)  # noqa: E731
        monkeypatch.setattr(tfdml.models.EmbeddingModel, name, counted)
    timed = training.train(data, tmp_path / "timed", verbose=0, max_minutes=0.01, **TINY)
    given = training.train(data, tmp_path / "given", verbose=0, config=timed.folder / "settings.toml")
    assert {name: len(networks) for name, networks in traced.items()} == {"compute_loss": 2, "predict_step": 6}
    assert all(len(set(map(id, networks))) == len(networks) for networks in traced.values())
    for ours, theirs in zip(timed.model.get_weights(), given.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_an_interrupt_before_the_first_epoch_is_an_interrupt(tmp_path, monkeypatch):
    def print_line(text):
        if text == "Training":
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "print_line", print_line)
    with pytest.raises(KeyboardInterrupt):
        training.train(labeled([4] * 10), tmp_path / "run", steps=2, epochs=1, **TINY)
    assert not (tmp_path / "run" / "model.keras").exists()


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ([9], {}, "at least two classes"),
        ([4] * 10, {"sise": 32}, "the setting 'sise', expected 'size', or"),
        ([4] * 10, {"classes_per_batch": 9}, "classes_per_batch=9 and 8 classes to train on"),
        ([4] * 10, {"max_minutes": 0}, "max_minutes=0"),
        ([4] * 10, {"weights": "imagenet"}, "weights='none'"),
        ([4] * 10, {"resume": True}, "the folder of a run"),
    ],
)
def test_bad_input_is_an_error_before_anything_is_written(tmp_path, sizes, options, message):
    with pytest.raises(ValueError, match=message):
        training.train(labeled(sizes), tmp_path / "run", verbose=0, **{**TINY, **options})
    assert not (tmp_path / "run").exists()


def test_a_set_whose_files_all_fail_is_an_error(tmp_path, capsys):
    paths = np.array([str(tmp_path / f"{row}.jpg") for row in range(8)])
    names = ("a", "b")
    data = LabeledSet(
        paths=paths, labels=np.arange(8) // 4, class_names=names, load=tfdml.datasets.Preprocessing(size=8)
    )
    with pytest.raises(ValueError, match="0 usable images in 0 classes"):
        training.train(data, tmp_path / "run")
    assert capsys.readouterr().err.splitlines()[0].endswith("; 8 left out")


def test_a_folder_with_other_files_is_an_error_and_keeps_them(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        training.train(labeled([4] * 10), tmp_path, verbose=0)
    (tmp_path / "settings.toml").write_text("")
    with pytest.raises(FileExistsError, match="resume"):
        training.train(labeled([4] * 10), tmp_path, verbose=0)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_run_inside_its_set_is_an_error(photos):
    assert cli.main(["train", str(photos), "--out", str(photos / "run")]) == 2
    with pytest.raises(ValueError, match="inside data"):
        training.train(photos, photos / "run")
    assert not (photos / "run").exists()


def test_a_run_that_diverges_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "new_plan", lambda *_: SimpleNamespace(begin=lambda *_: None))
    monkeypatch.setattr(module, "_fit", lambda folder, *_: History(tmp_path / "history.csv"))
    with pytest.raises(ValueError, match=r"diverged.*lower learning_rate"):
        training.train(labeled([4] * 10), tmp_path / "run", verbose=0)


def test_a_batch_above_the_free_memory_is_an_error():
    settings = replace_settings(size=64)
    model = network.new_model(settings, labeled([1] * 8))
    needed = 2 * settings.batch_size * bytes_per_image(model)
    require_memory(settings, model, needed)
    require_memory(settings, model, None)
    with pytest.raises(MemoryError, match=r"8 images of 64 x 64 pixels.*micro_batch_size"):
        require_memory(settings, model, needed - 1)
    require_memory(replace(settings, micro_batch_size=4), model, needed // 2)


def replace_settings(**options):
    chosen = {
        "split_by": "class", "validation": 0.2, "test": 0.0, "seed": 0, "weights": "none", "pooling": "avg",
        "fit": "pad", "mirror": True, "tuning": "all", "lora_rank": 2, "loss": "triplet", "learning_rate": 0.1,
        "unlabeled": False, "labels": "none",
        "micro_batch_size": 0, "steps": 1, "epochs": 1,
    }  # fmt: skip
    return TrainingSettings(**{**chosen, **TINY, **options})


@pytest.mark.parametrize("tuning", ["head", "lora", "all"])
def test_what_is_trained(monkeypatch, tuning):
    small = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(4, 3), keras.layers.Conv2D(4, 1)])
    monkeypatch.setattr(network, "from_backbone", lambda _, **options: tfdml.models.from_backbone(small, **options))
    settings = replace_settings(tuning=tuning, backbone="small", weights="imagenet")
    trained = sum(
        int(np.prod(weight.shape)) for weight in network.new_model(settings, labeled([1] * 4)).trainable_weights
    )
    assert trained == {"head": 5 * 8, "lora": 5 * 8 + 2 * (4 + 4), "all": 5 * 8 + 28 * 4 + 5 * 4}[tuning]


class Network:
    """A network that is not trained; its weights are finite."""

    inputs, outputs = [], []
    stop_training = False
    variables = ()

    def save(self, path):
        path.write_text("best")


def test_a_run_ends_before_an_epoch_that_would_exceed_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr("tfdml.training.progress.bare", lambda _: Network())
    monkeypatch.setattr("tfdml.training.progress.non_finite_variable", lambda _: None)
    times = iter([0.0, 7.0, 8.0, 10.0, 10.0, 11.0, 12.0, 14.0, 14.0, 15.0, 16.0, 18.0])
    monkeypatch.setattr("tfdml.training.progress.time.monotonic", lambda: next(times))
    history, said = History(tmp_path / "history.csv"), []
    callback = KeepBest(history, tmp_path / "best.keras", max_seconds=20, log=said.append)
    callback.set_model(Network())
    callback.set_params({"epochs": 5, "steps": 2})
    for epoch, value in enumerate([0.5, 0.4, 0.4]):
        assert not callback.model.stop_training
        callback.on_epoch_begin(epoch)
        for step in range(2):
            callback.on_train_batch_end(step)
        callback.on_epoch_end(epoch, {"loss": 1.0, "val_recall@1": 0.25, "val_map@r": value})
    assert callback.model.stop_training
    assert history.best == (0.5, 1)
    # The first step took 7 seconds to compile; the next epochs take 4, as two steps of 1 and an evaluation of 2.
    assert said[0] == "epoch   1 of 5  loss 1.0000  Recall@1  25.0  MAP@R  50.0  best epoch 1  0:16 left"
    assert said[-1] == "The next epoch would exceed 0:20: training ends."
    assert History(tmp_path / "history.csv", num_epochs=1).rows == history.rows[:1]
    assert clock(185) == "3:05"


def test_stages_are_numbered_and_share_the_time(monkeypatch):
    times = iter([0.0, 30.0, 120.0])
    monkeypatch.setattr("tfdml.training.progress.time.monotonic", lambda: next(times))
    said = []
    stages = Stages(2, said.append)
    stages.begin("embedding", "8 images")
    stages.begin("report")
    stages.end()
    assert said == ["  1 of 2: embedding 8 images", "  2 of 2: report", "  2:00 in all: embedding 25%, report 75%"]


def test_the_network_before_training_is_best_only_if_no_epoch_reaches_it(tmp_path):
    history = History(tmp_path / "history.csv")
    assert (history.best, history.best_trained) == ((-np.inf, 0), 0)
    history.append({"epoch": 0, "seconds": 1.0, "val_map@r": 0.5})
    assert (history.best, history.trained) == ((0.5, 0), [])
    history.append({"epoch": 1, "seconds": 1.0, "val_map@r": 0.4})
    assert (history.best, history.best_trained) == ((0.5, 0), 1)
    history.append({"epoch": 2, "seconds": 1.0, "val_map@r": 0.5})
    history.append({"epoch": 3, "seconds": 1.0, "val_map@r": 0.5})
    assert (history.best, history.best_trained) == ((0.5, 2), 2)
    by_rank = History(tmp_path / "ranks.csv", metric="mrr")
    for epoch, values in enumerate([(0.5, 0.1), (0.4, 0.3), (0.3, 0.2)]):
        by_rank.append({"epoch": epoch, "seconds": 1.0, **dict(zip(("val_map@r", "val_mrr"), values, strict=True))})
    assert by_rank.best == (0.3, 1)


def test_a_damaged_table_of_epochs_is_named(tmp_path):
    (tmp_path / "history.csv").write_text("epoch,loss\nx,1\n")
    with pytest.raises(ValueError, match=r"damaged '.*history\.csv', expected a row per epoch"):
        History(tmp_path / "history.csv", num_epochs=2)


def test_a_card_has_the_license_of_the_weights_that_a_run_began_with():
    began = SimpleNamespace(backbone="EfficientNetLite0", weights="imagenet")
    assert license_of(began, is_trained=False).startswith("Apache-2.0. The weights are those of EfficientNet-Lite0 in")
    trained = license_of(began, is_trained=True)
    assert trained.startswith("not stated. The training began with the weights of EfficientNet-Lite0 in the package ")
    preset = SimpleNamespace(backbone="dinov2_small", weights="imagenet")
    assert license_of(preset, is_trained=False).startswith(
        "Apache-2.0. The weights are those of the preset dinov2_small"
    )
    others = [("ResNet50", "imagenet"), ("dinov2_small", "none"), ("dinov2_small", "own.weights.h5")]
    for backbone, weights in others:
        assert license_of(SimpleNamespace(backbone=backbone, weights=weights), is_trained=False) == "not stated"


def test_a_sentence_says_whether_training_helped():
    labels, noise = np.arange(24) // 3, np.random.default_rng(0).uniform(0, 0.1, 24)

    def told(values, frozen, labels=labels):
        comparison = tfdml.metrics.paired_comparison(values, frozen, labels, names=(TRAINED, FROZEN))
        found = {"main": "map@r", "unit": "classes", "queries": 24, "units": comparison.classes}
        return verdict(SimpleNamespace(pairs=[SimpleNamespace(comparison=comparison)], **found))

    assert re.match(r"Training helped: .* MAP@R differs by \+\d+\.\d to \+\d+\.\d points", told(0.5 + noise, noise))
    assert told(noise, 0.5 + noise).startswith("Training did not help: against")
    assert told(noise, noise[::-1]).startswith("It cannot be told whether training helped: against")
    assert "8 classes" in told(noise, noise)
    assert told(0.5 + noise, noise, labels=labels % 5).endswith("needs 6 classes or more, and there are 5.")


@pytest.mark.slow
def test_a_run_whose_evaluation_fails_keeps_model_index_and_export(tmp_path, monkeypatch):
    def failing(*_, **__):
        raise ValueError("no relevant item")

    monkeypatch.setattr("tfdml.training.outputs.evaluate", failing)
    monkeypatch.setattr("tfdml.training.progress.History.best", property(lambda self: (1.0, 0)))
    with pytest.raises(RuntimeError, match=r"tfdml serve takes; the evaluation of its validation part failed: no rel"):
        training.train(labeled([4, 5]), tmp_path / "run", verbose=0, **{**TINY, "classes_per_batch": 2}, steps=1)
    model = keras.saving.load_model(tmp_path / "run" / "model.keras")
    before = network.frozen_network(TrainingSettings(**read_settings(tmp_path / "run" / "settings.toml")))
    for ours, theirs in zip(model.get_weights(), before.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)  # no epoch was better, so it is exported
    assert len(tfdml.search.load(tmp_path / "run" / "index")) == 9
    assert (tmp_path / "run" / "1" / "saved_model.pb").is_file()


def test_a_missing_pretrained_network_is_said_first_and_missing_packages_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "has_pretrained_weights", lambda: False)
    with pytest.raises(ValueError, match="at least two classes"):
        training.train(labeled([9]), tmp_path / "run")
    assert capsys.readouterr().err.startswith("No pretrained network is installed: this run trains a small one")
    monkeypatch.setattr("tfdml._core.optional.find_spec", lambda name: None)
    missing = "pyarrow and matplotlib and PIL and sklearn"
    with pytest.raises(ImportError, match=rf"needs {missing}: pip install tfdml\[photos\]"):
        training.train(labeled([4, 5]), tmp_path / "run")


def test_an_index_of_objects_has_a_row_and_a_box_for_each_and_their_margin_stays():
    boxes, load = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8]]), tfdml.datasets.Preprocessing(size=8, boxes=True, margin=0.2)
    facts = {"paths": np.array(["a.png", "a.png"]), "labels": np.array([1, 0]), "class_names": ("x", "y")}
    columns = item_table(LabeledSet(**facts, boxes=boxes, load=load))
    assert columns["box"].to_pylist() == boxes.tolist()
    assert (columns["class"].to_pylist(), columns["path"].to_pylist()) == (["y", "x"], ["a.png", "a.png"])
    assert tfdml.search.Exact(np.eye(2), metadata=columns).metadata["box"].to_pylist() == boxes.tolist()
    view = network.preprocessing_of(SimpleNamespace(size=16, fit="pad"), load)
    assert (view.size, view.boxes, view.margin) == (16, True, 0.2)
