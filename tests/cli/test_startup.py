"""The command answers questions about itself before Keras is imported."""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import os
import shlex
import subprocess
import sys

import pytest

from tests.cli.test_refused import answers_of
from tests.test_documents import ROOT
from tfdml import __main__ as command
from tfdml import cli, serving
from tfdml.cli import commands, parser
from tfdml.export.graph_search.quantized import DTYPES
from tfdml.training.settings import NAMES

QUESTIONS = {
    "--help": "usage: tfdml [-h]",
    "--version": f"tfdml {importlib.metadata.version('tfdml')}",
    **{f"{name} --help": f"usage: tfdml {name}" for name in parser.COMMANDS},
    **{f"index {name} --help": f"usage: tfdml index {name}" for name in parser.ACTIONS},
}


def test_questions_are_answered_before_anything_heavy_is_imported():
    for (words, text), answer in zip(QUESTIONS.items(), answers_of(QUESTIONS, ROOT), strict=True):
        assert (answer[0], answer[2], text in answer[1]) == (0, [], True), words


@pytest.mark.slow
def test_a_command_runs_once_its_words_are_read():
    ((code, printed, heavy),) = answers_of(["zoo list --root savedmodels"], ROOT)
    assert (code, heavy) == (0, ["keras", "tensorflow", "tfdml.losses"])
    assert "glyphs-nt-xent" in printed
    assert "tfdml: " not in printed


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


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with everything that the examples of the commands name, but for what they write."""
    tables = ("old.npy", "new.npy", "labels.csv", "photos/labels.csv", "march.csv", "april.csv")
    for name in (*tables, "photos/a.jpg", "photo.jpg", "run/index/index.json", "products/index.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "run" / "settings.toml").write_text('format = "tfdml.training/1"')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", parser.COMMANDS)
def test_command_has_a_function_a_sentence_of_help_and_an_example(name, here):
    declare, example = parser.COMMANDS[name]
    assert callable(getattr(cli.commands_of(argparse.Namespace(command=name)), f"run_{name}"))
    assert declare.__doc__.endswith(".")
    example = example.replace("--out run", "--out new").replace("serve run", "serve run --port 0")
    assert cli.parse(shlex.split(example)[1:]).command == name


@pytest.mark.parametrize("name", parser.ACTIONS)
def test_the_example_of_an_action_is_one(name, here):
    options = cli.parse(shlex.split(parser.ACTIONS[name][1])[1:])
    assert (options.command, options.action, options.index) == ("index", name, "run")


def test_the_options_of_train_are_the_settings_in_their_order(here):
    options = vars(
        cli.parse(["train", "photos", "--out", "new", "--loss=triplet", "--dim=3", "--test=0.5", "--no-mirror"])
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
