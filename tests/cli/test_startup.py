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
        ("search photos nothing set.csv", "INDEX: Received nothing: no such file or folder, expected what"),
        ("search photos photos set.csv 1.png 2.png", "IMAGE: Received 1.png, 2.png: no such file or folder"),
        ("compare set.csv no.npy --labels set.csv", "FILE: Received no.npy: no such file or folder, expected files of"),
        ("clean photos nothing --out findings", "FOLDER: Received nothing: no such file or folder"),
        ("serve photos --host 256.0.0.1", "--host 256.0.0.1 --port 8501: Received an address that cannot be used"),
    ],
)
def test_names_of_nothing_are_answered_before_anything_heavy_is_imported(words, text, tmp_path):
    (tmp_path / "photos" / "class").mkdir(parents=True)
    (tmp_path / "set.csv").write_text("path,label\n")
    done = run(*words.split(), folder=tmp_path)
    assert done.stderr.startswith(f"tfdml: error: {text}")
    assert done.stdout == "2 []\n"


def test_a_taken_port_is_told_before_anything_heavy_is_imported(tmp_path):
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
    with contextlib.suppress(ImportError), command._without_log_lines():
        os.write(2, lines)
        if fails:
            raise ImportError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "It is old.\nafter\n"
