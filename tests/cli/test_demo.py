"""`tfdml demo`: photographs, a search in them, and the page that it hands over to `tfdml serve`."""

import json
from pathlib import Path

import pytest

from tfdml import cli
from tfdml.cli import demo

SAVEDMODELS = Path(__file__).parents[2] / "savedmodels"


@pytest.fixture
def with_zoo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "savedmodels").symlink_to(SAVEDMODELS)


@pytest.fixture
def two_things(monkeypatch):
    monkeypatch.setattr(demo, "THINGS", {name: demo.THINGS[name] for name in (demo.QUERY, "coins")})


@pytest.fixture
def commands(two_things, monkeypatch):
    """The commands of a demo, which are noted and not run."""
    ran, main = [], cli.main
    monkeypatch.setattr(cli, "main", lambda words: main(words) if words[0] == "demo" else ran.append(words) or 0)
    return ran


@pytest.mark.slow
def test_the_query_of_the_demo_finds_its_thing_and_a_second_demo_embeds_nothing(with_zoo, capsys):
    assert cli.main(["demo", "--no-serve", "--json"]) == 0
    embedded, found = map(json.loads, capsys.readouterr().out.splitlines())
    assert embedded["embedded"] == 156
    assert [neighbor["metadata"]["label"] for neighbor in found[0]["neighbors"]] == [demo.QUERY] * 3
    assert cli.main(["demo", "--no-serve", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_the_demo_prints_its_commands_and_hands_over_to_the_server(with_zoo, commands, capsys):
    assert cli.main(["demo", "shown", "--port", "0"]) == 0
    embed, search, serve = commands
    assert embed == ["embed", "shown/photos", "shown/photos.parquet", "--model", "things"]
    assert search == ["search", "things", "shown/photos.parquet", "shown/query.jpg", "-k", "3"]
    assert serve[:6] == ["serve", "things", "--index", "shown/photos.parquet", "--name", "things"]
    assert f"$ tfdml {' '.join(embed)}\n" in capsys.readouterr().err
    assert len(list(Path("shown").glob("photos/*/*.jpg"))) == len(demo.THINGS) * demo.VIEWS


def test_a_command_that_fails_ends_the_demo(with_zoo, two_things, monkeypatch):
    main = cli.main
    monkeypatch.setattr(cli, "main", lambda words: main(words) if words[0] == "demo" else 2)
    assert cli.main(["demo", "--no-serve"]) == 2


def test_a_folder_of_other_files_is_left_alone(with_zoo, commands, capsys):
    Path("mine").mkdir()
    Path("mine/photo.jpg").touch()
    assert cli.main(["demo", "mine", "--no-serve"]) == 2
    assert "FOLDER='mine': Received a folder of other files, expected a new or an empty" in capsys.readouterr().err
    assert (list(Path("mine").iterdir()), commands) == ([Path("mine/photo.jpg")], [])


def test_without_the_models_the_demo_says_how_to_install_them(tmp_path, monkeypatch, commands, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--no-serve"]) == 2
    assert "expected the models of tfdml: pip install tfdml-zoo" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
