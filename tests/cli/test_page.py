"""The commands of the page run in one process, and print what the page says."""

import re
import shlex

import pytest

from tests.test_documents import ROOT, at_its_lines, blocks
from tfdml import cli
from tfdml.cli.parser import COMMANDS

PAGE = ROOT / "docs" / "command-line.md"


def consoles():
    """Each command of the page, and what it prints there; empty where the page does not say."""
    text = "".join(re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL))
    commands = [part.split("\n", 1) for part in text.split("$ tfdml ")[1:]]
    return [(shlex.split(command), output) for command, output in commands]


@pytest.mark.slow
def test_the_commands_of_the_page_do_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(at_its_lines(PAGE, blocks(PAGE)[0]), str(PAGE), "exec"), {})
    assert len(consoles()) == 10
    for command, output in consoles():
        assert cli.main(command) == 0
        printed = capsys.readouterr().out
        assert printed == output or (not output and len(printed) > 100)


def test_the_page_lists_all_commands():
    text = PAGE.read_text()
    assert re.findall(r"^\| `tfdml (\w+)", text, flags=re.MULTILINE) == list(COMMANDS)
