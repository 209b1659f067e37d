"""The command line with models of the zoo."""

import json
import shutil

import pytest

from tests.worlds import write_png
from tests.zoo.cards import write_entry
from tests.zoo.conftest import DATA, IMAGES, made, trained  # noqa: F401
from tests.zoo.test_entries import flip
from tfdml import cli, evaluation, zoo
from tfdml.zoo.sets import SETS

pytestmark = pytest.mark.slow  # the entries of the fixture take seconds


@pytest.fixture
def run(made, tmp_path, monkeypatch, capsys):  # noqa: F811
    """Function from words to the exit code and what was printed, in a folder with models and photos."""
    shutil.copytree(made, tmp_path / "savedmodels")
    for row, pixels in enumerate(IMAGES):
        write_png(tmp_path / "photos" / f"class-{row // 4}" / f"{row:02}.png", pixels)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SETS, DATA.protocol, lambda: (DATA, None))

    def command(*words):
        code = cli.main(words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


def test_models_are_listed_with_their_cards(run):
    assert run("zoo", "list") == (0, f"{zoo.list_models()}\n", "")
    assert [card["name"] for card in json.loads(run("zoo", "list", "--json")[1])] == ["pair", "squares"]
    assert run("zoo", "list", "squares", "--root", "savedmodels")[1] == f"{zoo.card('squares')}\n"
    assert run("zoo", "list", "--root", "nowhere")[0] == 2


def test_models_are_measured_again(run, tmp_path):
    code, out, _ = run("zoo", "evaluate", "squares")
    assert (code, out) == (0, f"{zoo.evaluate('squares')}\n")
    shutil.rmtree(tmp_path / "savedmodels" / "pair")
    write_entry(tmp_path / "savedmodels", "of-others", data="photos/exact-cosine/v1")
    code, found, said = run("zoo", "evaluate")
    assert (code, found) == (0, out)
    assert "of-others: skipped. tfdml.zoo.evaluate('of-others', data=)" in said
    card = tmp_path / "savedmodels" / "squares" / "model.json"
    content = json.loads(card.read_text())
    content["metrics"]["mrr"]["value"] -= 0.01
    card.write_text(json.dumps(content))
    evaluating_sums = zoo.check("squares")
    assert evaluating_sums == ("model.json: differs from SHA256SUMS",)
    assert run("zoo", "evaluate", "squares")[0] == 1
    from tfdml._core.checksums import write_checksums

    write_checksums(card.parent)
    code, out, _ = run("zoo", "evaluate", "squares", "--json")
    assert (code, json.loads(out)[0]["agrees"]) == (1, False)


def test_files_are_compared_with_their_checksums(run, tmp_path):
    assert run("zoo", "check")[:2] == (0, "pair: whole\nsquares: whole\n")
    flip(tmp_path / "savedmodels" / "pair" / "model.keras", 999)
    assert run("zoo", "check")[:2] == (1, "pair: model.keras: differs from SHA256SUMS\nsquares: whole\n")
    assert json.loads(run("zoo", "check", "squares", "--json")[1]) == {"squares": []}
    code, _, err = run("zoo", "check", "nope")
    assert code == 2
    assert "expected an entry in 'savedmodels': pair, squares" in err


def test_names_of_the_zoo_are_models_of_all_commands(run):
    code, out, _ = run("evaluate", "squares", "photos", "--json")
    assert code == 0
    model = zoo.load("squares")
    expected = evaluation.evaluate(model.predict_on_batch(IMAGES), DATA.labels).metrics["map@r"].value
    assert json.loads(out)["means"]["model"]["map@r"]["value"] == pytest.approx(expected)
    assert run("embed", "photos", "items", "--model", "savedmodels/pair/gallery")[0] == 0
    code, out, _ = run("search", "pair/query", "items", "photos/class-2/09.png", "-k", "3")
    assert (code, len(out.splitlines())) == (0, 4)
    code, _, err = run("evaluate", "pair", "photos")
    assert code == 2
    assert "MODEL='pair': Received pair, expected pair/query or pair/gallery" in err


def test_a_damaged_model_of_the_zoo_is_not_opened(run, tmp_path):
    flip(tmp_path / "savedmodels" / "squares" / "model.keras", 777)
    code, _, err = run("evaluate", "squares", "photos")
    assert code == 2
    assert "model.keras: differs from SHA256SUMS" in err
