"""The command answers questions about itself before Keras is imported."""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import os
import shlex
import socket
import subprocess
import sys

import pytest

from tests.test_documents import ROOT
from tfdml import __main__ as command
from tfdml import cli, serving
from tfdml.cli import commands, parser
from tfdml.export.graph_search.quantized import DTYPES
from tfdml.training.settings import NAMES

# The words of the command follow; what it imported is the last line.
PROGRAM = """
import sys
from tfdml.__main__ import main
try:
    code = main()
except SystemExit as exit:
    code = exit.code
print(code, [name for name in ("keras", "tensorflow", "tfdml.losses") if name in sys.modules])
"""


def run(*words, folder=ROOT):
    """What the command prints, with its exit code and the heavy modules in the last line."""
    command = [sys.executable, "-c", PROGRAM, *words]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("--help", 0, "usage: tfdml [-h]"),
        ("--version", 0, f"tfdml {importlib.metadata.version('tfdml')}"),
        ("", 2, "the following arguments are required: COMMAND"),
        ("translate", 2, "invalid choice: 'translate'"),
        ("train photos --out run --epoch-count 3", 2, "unrecognized arguments: --epoch-count 3"),
        ("serve run --port 70000", 2, "Received '70000', expected a port from 0 to 65535."),
        *((f"{name} --help", 0, f"usage: tfdml {name}") for name in parser.COMMANDS),
    ],
)
def test_questions_are_answered_before_anything_heavy_is_imported(words, code, text):
    done = run(*words.split())
    assert text in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{code} []"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("train nothing --out run", "SET='nothing': Received no such file or folder"),
        ("check set.csv --label-column klass", "SET='set.csv': Received a table without 'klass' (--label-column), "),
        (
            "check set.csv --box-columns left upper x 2",
            "SET='set.csv': Received a table without 'left', 'upper', 'x', '2'",
        ),
        ("train photos --out photos", "--out photos: Received what is not an empty folder, expected a new or an empty"),
        ("train photos --out run --config no.toml", "--config: Received no.toml: no such file or folder"),
        ("embed photos out --model nothing", "MODEL='nothing': Received no such file or folder, expected a SavedModel"),
        ("embed photos out --model photos --preprocessing no.json", "--preprocessing: Received no.json: no such file"),
        ("search model nothing set.csv", "INDEX: Received nothing: no such file or folder, expected what"),
        ("search model photos set.csv 1.png 2.png", "IMAGE: Received 1.png, 2.png: no such file or folder"),
        ("compare set.csv no.npy --labels set.csv", "FILE: Received no.npy: no such file or folder, expected files of"),
        ("clean photos nothing --out findings", "FOLDER: Received nothing: no such file or folder"),
        ("serve model --host 256.0.0.1", "--host 256.0.0.1 --port 8501: Received an address that cannot be used"),
    ],
)
def test_names_of_nothing_are_answered_before_anything_heavy_is_imported(words, text, tmp_path):
    (tmp_path / "photos" / "class").mkdir(parents=True)
    (tmp_path / "set.csv").write_text("path,label\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").touch()
    done = run(*words.split(), folder=tmp_path)
    assert done.stderr.startswith(f"tfdml: error: {text}")
    assert done.stdout == "2 []\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("evaluate photos run", "MODEL='photos': Received a folder of images, expected a model, which is in the place"),
        ("search run/index run 1.jpg", "MODEL='run/index': Received an index, expected a model, which is in the place"),
        ("serve run/index", "MODEL='run/index': Received an index, expected a model. A run is served with its index: "),
        ("serve own", "MODEL='own': Received an index, expected a model: tfdml serve MODEL --index own."),
        ("search run run 1.jpg", "INDEX='run': Received a run of tfdml train, expected its index, run/index."),
        ("embed photos out --model thing", "MODEL='thing': Received no such file or folder (did you mean 'things'?), "),
        ("embed photos out --model unknown", "other, things."),
        (
            "check phots",
            "SET='phots': Received no such file or folder (did you mean 'photos'?), expected a folder with",
        ),
        (
            "check 1.jpg",
            "SET='1.jpg': Received an image file, expected a folder with one subfolder of images per class",
        ),
        ("check photos.zip", "SET='photos.zip': Received an archive, which must be unpacked first, expected a folder"),
        ("clean 1.jpg --out findings", "FOLDER: Received 1.jpg: an image file, expected folders of images."),
    ],
)
def test_an_error_says_what_is_there_or_near(words, text, tmp_path, monkeypatch, capsys):
    files = ("photos/a/1.png", "run/index/index.json", "own/index.json", "1.jpg", "photos.zip")
    for name in (*files, "savedmodels/things/model.json", "savedmodels/other/model.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "run" / "settings.toml").write_text('format = "tfdml.training/1"')
    monkeypatch.chdir(tmp_path)
    assert cli.main(words.split()) == 2
    assert text in capsys.readouterr().err


def test_a_taken_port_is_told_before_anything_heavy_is_imported(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", str(tmp_path), "--port", str(port))
    assert f"--port {port}: Received an address that cannot be used (" in done.stderr
    assert done.stdout == "2 []\n"


@pytest.mark.slow
def test_a_command_runs_once_its_words_are_read():
    done = run("zoo", "list", "--root", "savedmodels")
    assert "glyphs-nt-xent" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 ['keras', 'tensorflow', 'tfdml.losses']"
    assert done.stderr == ""


NOISE = """
import os
from tfdml.__main__ import _without_log_lines
with _without_log_lines({kinds!r}):
    for line in ("I0000 00:00:1.2 3 a.cc:4] one", "W0000 00:00:1.2 3 a.cc:4] two", "E0000 a.cc:4] three", "four"):
        os.write(2, line.encode() + bytes([10]))
    if {is_aborted}:
        os.abort()
os.write(2, b"five" + bytes([10]))
"""


@pytest.mark.parametrize(
    ("kinds", "is_aborted", "shown"),
    [
        ("", False, "I W E four five"),
        ("I", False, "W E four five"),
        ("IW", False, "E four five"),
        ("IW", True, "E four"),
    ],
)
def test_log_lines_of_libraries_are_left_out_and_errors_are_shown(kinds, is_aborted, shown):
    program = NOISE.format(kinds=kinds, is_aborted=is_aborted)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    lines = done.stderr.splitlines()
    assert " ".join(line[0] if line[1:5] == "0000" else line for line in lines) == shown


@pytest.mark.parametrize("name", parser.COMMANDS)
def test_command_has_a_function_a_sentence_of_help_and_an_example(name):
    declare, example = parser.COMMANDS[name]
    assert callable(getattr(cli.commands_of(argparse.Namespace(command=name)), f"run_{name}"))
    assert declare.__doc__.endswith(".")
    assert cli.parse(shlex.split(example)[1:]).command == name


def test_the_options_of_train_are_the_settings_in_their_order():
    options = vars(
        cli.parse(["train", "photos", "--out", "run", "--loss=triplet", "--dim=3", "--test=0.5", "--no-mirror"])
    )
    given = {name: options[name] for name in ("loss", "dim", "test", "mirror")}
    assert given == {"loss": "triplet", "dim": 3, "test": 0.5, "mirror": False}
    assert [name for name in options if name in NAMES] == list(NAMES)


def test_the_choices_of_export_and_the_limits_of_serve_are_those_of_the_library():
    assert parser.DTYPES == DTYPES
    assert tuple(commands.SEARCHES) == parser.SEARCHES
    assert set(parser.LIMITS) <= {field.name for field in dataclasses.fields(serving.Limits)}


@pytest.mark.parametrize("fails", [False, True])
def test_lines_of_a_log_are_held_back_and_all_others_are_shown(fails, capfd):
    lines = b"WARNING: All log messages before absl::InitializeLog()\nI0000 00:00:17.6 1 stub.cc:31] none\nIt is old.\n"
    with contextlib.suppress(ImportError), command._without_log_lines("IW"):
        os.write(2, lines)
        if fails:
            raise ImportError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "It is old.\nafter\n"
