"""`tfdml export`."""

import json

import keras
import numpy as np
import pytest

from tfdml import cli, export, models, search
from tfdml.cli.parser import FORMATS


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = keras.Input((8, 8, 1))
    keras.Model(inputs, keras.layers.Dense(4)(keras.layers.Flatten()(inputs))).save("model.keras")
    search.Exact(np.random.default_rng(0).normal(size=(20, 4)), metadata={"label": np.arange(20)}).save("index")
    return tmp_path


@pytest.fixture
def written(monkeypatch):
    """The exports that a command asks for."""
    calls = []
    for name in FORMATS:
        function = "saved_model" if name == "savedmodel" else name

        def write(model, path, name=name, **options):
            calls.append((name, str(path), options))
            return path

        monkeypatch.setattr(export, function, write)
    return calls


def run(command, capsys):
    code = cli.main(["export", *command.split()])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_each_format_is_a_folder(here, written, capsys):
    command = (
        "model.keras --to onnx,web,savedmodel --boxes --index index --threshold 0.5 -k 3 --dtype int8 --out out --json"
    )
    code, printed, errors = run(f"{command} --runtime dist --item-column p", capsys)
    assert (code, errors) == (0, "")
    assert json.loads(printed) == {name: f"out/{name}" for name in ("onnx", "web", "savedmodel")}
    names, paths, options = zip(*written, strict=True)
    assert (names, paths) == (("onnx", "web", "savedmodel"), ("out/onnx", "out/web", "out/savedmodel"))
    assert (options[0]["boxes"], options[1]["runtime"]) == (True, "dist")
    assert options[2]["on_error"] == "skip"
    for each in options:
        assert each["search"] == export.ExactSearch(k=3, dtype="int8", items="p")
        assert each["threshold"] == 0.5
        assert len(each["index"]) == 20
        assert each["preprocessing"].shape == (8, 8, 1)


def test_without_an_index_the_network_alone_is_exported_beside_the_model(here, written, capsys):
    code, printed, _ = run("model.keras --to litert,openvino", capsys)
    assert (code, printed) == (0, "litert: model.keras-exports/litert\nopenvino: model.keras-exports/openvino\n")
    assert [options["index"] for _, _, options in written] == [None, None]
    assert [options["search"] for _, _, options in written] == [None, None]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("model.keras --to onnx -k 3", "-k, --search, --dtype or --item-column without an index, expected --index"),
        ("model.keras --to onnx --index index --runtime dist", "--runtime without --to web"),
        ("model.keras --to onnx --index index --search partitioned --item-column p", "--item-column for another"),
    ],
)
def test_arguments_that_do_not_fit_are_named(command, message, here, written, capsys):
    code, printed, errors = run(command, capsys)
    assert (code, printed, written) == (2, "", [])
    assert message in errors


@pytest.mark.slow
def test_a_model_and_its_index_are_exported_in_truth(here, capsys):
    from ai_edge_litert.interpreter import Interpreter

    assert run("model.keras --to litert --index index -k 5", capsys)[0] == 0
    images = np.random.default_rng(1).integers(0, 256, (3, 8, 8, 1), dtype="uint8")
    answer = Interpreter("model.keras-exports/litert/model.tflite").get_signature_runner("search")(images=images)
    embeddings = models.embed(keras.saving.load_model("model.keras"), images)
    np.testing.assert_array_equal(answer["ids"], search.load("index").search(embeddings, k=5)[0])
