"""`tfdml serve`: what it opens, and errors before it answers."""

import base64
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import cli, export, models, search, serving
from tfdml.cli.references import Reference
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.visualize import write_thumbnails

OPEN_MODEL = Reference.model


@pytest.fixture
def serve(capsys, monkeypatch, tmp_path):
    """Function from a command to its exit code, what it printed, and the arguments of the server that it made."""
    made = {}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "saved_model.pb").touch()

    def application(model, view, **options):
        made.update(options, model=model)

    monkeypatch.setattr(serving, "application", application)
    monkeypatch.setattr(serving, "run", lambda application, listening: made.update(address=listening.getsockname()))
    monkeypatch.setattr(Reference, "model", lambda self: (self.path, Preprocessing(size=8)))

    def run(command):
        made.clear()
        code = cli.main(["serve", *command.split()])
        printed = capsys.readouterr()
        return code, printed.out, printed.err, dict(made)

    return run


def test_a_model_is_served_on_this_machine_alone(serve):
    code, printed, errors, made = serve("folder --port 0")
    host, port = made.pop("address")
    assert (code, errors, host) == (0, "", "127.0.0.1")
    assert printed.startswith(f"model: http://127.0.0.1:{port}/")
    assert "page" not in printed
    given = {"model": "folder", "name": "model", "version": 1, "limits": serving.Limits(), "batch_size": 32}
    given |= {"other_model": False, "check_recall": 0.0, "dimensions": ()}
    none = ("index", "thumbnails", "newer", "item_column", "log", "root", "texts", "similarity_map")
    assert made == given | dict.fromkeys(none)


def test_an_index_inside_the_model_has_a_page(serve, monkeypatch):
    model = SimpleNamespace(signatures={"search": None})
    monkeypatch.setattr(Reference, "model", lambda self: (model, Preprocessing(size=8)))
    code, printed, _, made = serve("folder --port 0 --json")
    assert (code, made["index"]) == (0, None)
    assert json.loads(printed)["page"] in json.loads(printed)["model"]


@pytest.mark.parametrize(
    ("has_index", "said"), [(True, "3 items in its index: :predict"), (False, "no index: :search")]
)
def test_items_of_the_export_that_the_run_does_not_have_are_said(serve, run_folder, version_two, has_index, said):
    model = export.load("any")
    model.search = {"vectors": 5}
    if not has_index:
        shutil.rmtree(run_folder / "index")
    code, _, errors, _ = serve(f"{run_folder} --port 0")
    assert (code, said in errors, errors.count("\n")) == (0, True, 1)
    model.search = {"vectors": 3}
    assert has_index != bool(serve(f"{run_folder} --port 0")[2])


def test_options_are_limits_of_the_server(serve):
    limits = "--max-bytes 1 --max-pixels 2 --max-images 3 --max-neighbors 4 --max-requests 5 --seconds 6"
    *_, made = serve(f"folder --port 0 --name cats --batch-size 8 --item-column product {limits}")
    assert list(vars(made["limits"]).values()) == [1, 2, 3, 4, 5, 6]
    assert (made["name"], made["batch_size"], made["item_column"]) == ("cats", 8, "product")


@pytest.mark.parametrize("out", ["embeddings", "embeddings.parquet"])
def test_what_embed_wrote_is_an_index_with_labels(serve, out):
    images = np.random.default_rng(0).integers(0, 256, (6, 2, 2, 1), np.uint8)
    part = LabeledSet(images=images, labels=np.arange(6) % 2, class_names=("cat", "dog"))
    models.write_embeddings(SimpleNamespace(predict_on_batch=lambda x: x[:, :, 0, 0] / 1, fingerprint="x"), part, out)
    code, printed, _, made = serve(f"folder --port 0 --index {out} --json")
    assert code == 0
    assert json.loads(printed)["page"] in json.loads(printed)["model"]
    assert made["index"].ids.tolist() == list(range(6))
    assert made["index"].metadata.to_pydict() == {"label": ["cat", "dog"] * 3}


def test_an_index_is_loaded_and_one_of_another_model_is_taken_by_an_option(serve, tmp_path):
    search.Exact(np.eye(3), ["a", "b", "c"], metadata={"price": [1, 2, 3]}, model="old").save(tmp_path / "index")
    for option, allowed in (("", False), ("--other-model", True)):
        *_, made = serve(f"folder --port 0 --index {tmp_path / 'index'} {option}")
        assert (made["other_model"], made["index"].fingerprint) == (allowed, "old")
    assert made["index"].ids.tolist() == ["a", "b", "c"]
    assert made["index"].metadata.to_pydict() == {"price": [1, 2, 3]}


@pytest.fixture
def run_folder(tmp_path):
    """What `tfdml train` leaves for a server, with an export that is empty; it has a file of the zoo, too."""
    folder = tmp_path / "RUN"
    (folder / "2").mkdir(parents=True)
    (folder / "2" / "saved_model.pb").touch()
    (folder / "settings.toml").write_text('format = "tfdml.training/1"\nset = "photos"\n')
    (folder / "model.json").write_text("{}")
    columns = {"path": ["cat/1.jpg", "dog/2.jpg", "cat/3.jpg"], "class": ["cat", "dog", "cat"]}
    search.Exact(np.eye(3), metadata=columns).save(folder / "index")
    write_thumbnails(folder / "thumbnails.npz", [0, 1, 2], np.zeros((3, 4, 4, 3), np.uint8))
    return folder


@pytest.fixture
def version_two(monkeypatch):
    """An export of version 2 in place of the one that `export.load` opens; returns the list of what it opened."""
    opened = []
    model = SimpleNamespace(version=2, preprocessing=Preprocessing(size=8))
    monkeypatch.setattr(export, "load", lambda path: opened.append(path) or model)
    monkeypatch.setattr(Reference, "model", OPEN_MODEL)
    return opened


def test_a_training_run_is_served_with_its_index_and_its_thumbnails(serve, run_folder, version_two):
    code, printed, errors, made = serve(f"{run_folder} --port 0 --json")
    assert (code, errors, version_two) == (0, "", [str(run_folder)])
    record = json.loads(printed)
    assert record["page"] in record["model"]
    assert {name: record[name] for name in ("export", "index", "thumbnails")} == {
        "export": str(run_folder / "2"),
        "index": str(run_folder / "index"),
        "thumbnails": str(run_folder / "thumbnails.npz"),
    }
    assert (made["name"], record["model"].rpartition("/")[-1]) == ("RUN", "RUN")
    assert made["index"].metadata["class"].to_pylist() == ["cat", "dog", "cat"]
    assert list(made["thumbnails"]()) == [0, 1, 2]
    _, printed, *_ = serve(f"{run_folder} --port 0")
    assert f"\nthumbnails: {run_folder / 'thumbnails.npz'}\n" in printed


def test_the_keras_model_of_a_run_is_loaded_once_to_say_why(serve, run_folder, version_two, monkeypatch):
    assert serve(f"{run_folder} --port 0")[-1]["similarity_map"] is None
    (run_folder / "model.keras").touch()
    pixels, loaded = keras.Input((2, 2, 1)), []
    model = keras.Model(pixels, keras.layers.GlobalAveragePooling2D()(pixels))
    monkeypatch.setattr(Reference, "network", lambda self: loaded.append(self.path) or (model, None, None))
    similarity_map, image = serve(f"{run_folder} --port 0")[-1]["similarity_map"], np.ones((2, 2, 1))
    for number in (0, 1, 1):
        assert loaded == [str(run_folder)] * number
        np.testing.assert_allclose(similarity_map(image, image), np.full((2, 2, 2), 0.25), atol=1e-6)
    with pytest.raises(ValueError, match=r"Received model\.keras of model .* as of the export"):
        Reference(str(run_folder)).similarity_map(None, "0123456789abcdef")(image, image)


@pytest.mark.parametrize(
    ("folder", "name"), [("my photos, v2", "my-photos-v2"), (".hidden", "hidden"), ("写真", "model")]
)
def test_the_name_of_a_run_becomes_an_address(run_folder, folder, name):
    run_folder = run_folder.rename(run_folder.parent / folder)
    assert Reference(str(run_folder)).name == Reference(f"{run_folder}/").name == name
    (run_folder / "settings.toml").write_text('[tool]\nformat = "tfdml.training/1"\n')  # of another program
    assert not Reference(str(run_folder)).is_run
    assert not Reference(str(run_folder / "gone")).is_run


def test_all_missing_packages_are_named_at_once_with_their_extras(run_folder, monkeypatch, capsys):
    missing = ("aiohttp", "msgspec", "prometheus_client", "pyarrow")
    for module in ("_core.optional", "cli.arguments"):
        monkeypatch.setattr(f"tfdml.{module}.find_spec", lambda package: None if package in missing else package)
    assert cli.main(["serve", str(run_folder), "--port", "0"]) == 1
    message = (
        "tfdml serve needs aiohttp and msgspec and prometheus_client and pyarrow: pip install tfdml[serving,tables]."
    )
    assert capsys.readouterr().err == f"tfdml: error: {message}\n"


def test_a_training_run_is_served_with_another_index_or_without_one(serve, run_folder, version_two, tmp_path):
    search.Exact(np.eye(3)).save(tmp_path / "other")
    _, printed, _, made = serve(f"{run_folder} --port 0 --json --index {tmp_path / 'other'}")
    assert (json.loads(printed)["index"], json.loads(printed)["thumbnails"]) == (str(tmp_path / "other"), None)
    assert made["thumbnails"] is None  # their ids are those of the run's index
    (run_folder / "thumbnails.npz").unlink()
    _, printed, _, made = serve(f"{run_folder} --port 0")
    assert ("index:" in printed, "thumbnails:" in printed, made["thumbnails"]) == (True, False, None)
    shutil.rmtree(run_folder / "index")
    _, printed, _, made = serve(f"{run_folder} --port 0")
    assert ("index:" in printed, made["index"]) == (False, None)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("settings.toml", 'format = "tfdml.training/2"', "expected 'tfdml.training/1'"),
        ("settings.toml", "format = ", "Invalid value"),
        ("thumbnails.npz", "no archive", "expected a file that write_thumbnails wrote"),
        ("index/index.json", "{}", "index"),
    ],
)
def test_a_damaged_training_run_is_named(serve, run_folder, version_two, name, content, reason):
    (run_folder / name).write_text(content)
    code, printed, errors, made = serve(f"{run_folder} --port 0")
    assert (code, printed, made) == (2, "", {})
    assert errors.startswith(f"tfdml: error: MODEL={str(run_folder)!r}: ")
    assert reason in errors
    assert errors.count("\n") == 1


def asked(address, body=None):
    """The answer of a server, over a connection of its own."""
    with urllib.request.urlopen(address, body) as response:
        return response.read().decode()


@pytest.mark.slow
def test_several_processes_answer_at_one_port_count_together_and_end_together(tmp_path):
    inputs = keras.Input((1, 2, 1))
    keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs))).save(tmp_path / "m.keras")
    command = [sys.executable, "-m", "tfdml", "serve", str(tmp_path / "m.keras")]
    command += ["--port", "0", "--json", "--processes", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        model = json.loads(server.stdout.readline())["model"]
        png = tf.io.encode_png(np.array([[[3], [4]]], "uint8")).numpy()
        body = json.dumps({"instances": [{"b64": base64.b64encode(png).decode()}]}).encode()
        metrics = model.split("/v1/")[0] + "/metrics"
        sent, pids = 0, set()
        while len(pids) < 2:
            assert json.loads(asked(f"{model}:predict", body))["predictions"] == [pytest.approx([0.6, 0.8])]
            sent, text = sent + 1, asked(metrics)
            pids = set(re.findall(r'process_resident_memory_bytes\{pid="(\d+)"\}', text))
        embedded = [float(count) for count in re.findall(r'tfdml_images_total\{result="embedded"\} (\S+)', text)]
        assert embedded == [sent], "the images of both processes"
        assert text.count("# TYPE process_resident_memory_bytes gauge") == 1
        (other,) = pids - {str(server.pid)}
        os.kill(int(other), signal.SIGKILL)
        assert server.wait(30) == 1
        assert "a process of the server has ended, and the others with it" in server.stderr.read()


def test_a_damaged_model_and_a_damaged_index_are_named(tmp_path, capsys, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"damaged")
    assert cli.main(["serve", str(tmp_path / "model"), "--port", "0"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "MODEL=" in errors
    assert "a SavedModel that cannot be read" in errors
    search.Exact(np.eye(3)).save(tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text("{}")
    monkeypatch.setattr(Reference, "model", lambda self: (self.path, Preprocessing(size=8)))
    assert cli.main(["serve", str(tmp_path / "model"), "--port", "0", "--index", str(tmp_path / "index")]) == 2
    assert "INDEX=" in capsys.readouterr().err


def test_a_server_without_its_packages_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tfdml" and "serving" in name]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"pip install tfdml\[serving\]"):
        importlib.import_module("tfdml.serving")
