"""The command answers questions about itself before Keras is imported."""

import argparse
import dataclasses
import importlib
import importlib.metadata
import subprocess
import sys
from typing import get_args

import pytest

from tests.test_documents import ROOT
from tfdml import cli, serving
from tfdml.cli.options import export, serve, train
from tfdml.export.graph_search.quantized import DTYPES
from tfdml.training.settings import TYPES

# The words of the command follow; what it imported is the last line.
PROGRAM = """
import sys
from tfdml_command import main
try:
    code = main()
except SystemExit as exit:
    code = exit.code
print(code, [name for name in ("numpy", "keras", "tensorflow", "tfdml.losses") if name in sys.modules])
"""


def run(*words):
    """What the command prints, with its exit code and the heavy modules in the last line."""
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("--help", 0, "usage: tfdml [-h]"),
        ("--version", 0, f"tfdml {importlib.metadata.version('tfdml')}"),
        ("", 2, "the following arguments are required: COMMAND"),
        ("translate", 2, "invalid choice: 'translate'"),
        ("train photos --out run --epoch-count 3", 2, "unrecognized arguments: --epoch-count 3"),
        ("serve run --port 70000", 2, "Received '70000', expected a port from 0 to 65535."),
        *((f"{name} --help", 0, f"usage: tfdml {name}") for name in cli.COMMANDS),
    ],
)
def test_questions_are_answered_before_anything_heavy_is_imported(words, code, text):
    done = run(*words.split())
    assert text in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{code} []"


@pytest.mark.slow
def test_a_command_runs_once_its_words_are_read():
    done = run("zoo", "list", "--root", "savedmodels")
    assert "glyphs-nt-xent" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 ['numpy', 'keras', 'tensorflow', 'tfdml.losses']"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_has_a_module_that_runs_it_and_a_sentence_of_help(name):
    assert callable(importlib.import_module(f"tfdml.cli.{name}").run)
    assert importlib.import_module(f"tfdml.cli.options.{name}").declare.__doc__.endswith(".")


def form_of(setting_type):
    """How argparse reads a setting of this type."""
    if setting_type is bool:
        return {"action": argparse.BooleanOptionalAction}
    if get_args(setting_type):
        return {"choices": get_args(setting_type)}
    return {"type": setting_type, "metavar": {int: "N", float: "X", str: "NAME"}[setting_type]}


def test_the_options_of_train_are_the_settings_in_their_order():
    assert [(name, form) for name, (form, _) in train.SETTINGS.items()] == [
        (name, form_of(setting_type)) for name, setting_type in TYPES.items()
    ]


def test_the_choices_of_export_and_the_limits_of_serve_are_those_of_the_library():
    assert export.DTYPES == DTYPES
    assert tuple(importlib.import_module("tfdml.cli.export")._SEARCHES) == export.SEARCHES
    assert set(serve.LIMITS) <= {field.name for field in dataclasses.fields(serving.Limits)}
