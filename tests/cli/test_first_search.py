"""The commands of the tutorial run one after another, on small photographs in place of those of the demo."""

import shlex

import pytest

from tests.pages import commands
from tests.test_documents import ROOT, own_photos
from tfdml import cli

PAGE = ROOT / "docs" / "first-search.md"


@pytest.mark.nightly
def test_the_commands_of_the_tutorial_run_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own_photos(tmp_path / "tfdml-demo")
    photos = tmp_path / "tfdml-demo" / "photos"
    (photos / "class-03").rename(photos / "motorcycle")
    (tmp_path / "tfdml-demo" / "query.jpg").write_bytes((photos / "motorcycle" / "15.jpg").read_bytes())
    (tmp_path / "savedmodels").symlink_to(ROOT / "savedmodels")
    lines = [line.removeprefix("tfdml ") for line in commands(PAGE)]
    assert len(lines) == 11
    for line in lines:
        name, *words = shlex.split(line.replace("--max-minutes 3", "--quick").replace("20 10 180 160", "2 2 40 36"))
        if name in ("demo", "serve"):  # tests/cli/test_demo.py and tests/serving have them
            continue
        assert cli.main([name, *words]) == (name == "clean"), line  # noise has no copies that a calibration could tell
    assert "theirs" in capsys.readouterr().out
