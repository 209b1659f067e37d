"""Cards and lists of entries whose checksums are right, whatever their cards hold."""

import json
from dataclasses import replace

import pytest

from tests.zoo.cards import CARD, write_entry
from tfdml import cli, zoo
from tfdml.zoo.card import write_card

DEEP = "[" * 100_000 + "]" * 100_000
WRONG = {  # tests/test_damage.py tries every value of every field
    "deep JSON": DEEP,
    "deep JSON in a card": json.dumps(CARD).replace('"train.py"', DEEP),
    "towers": json.dumps(CARD | {"towers": ["query"]}),
    "format 1": json.dumps(CARD | {"format": 1}),
    "format 3": json.dumps(CARD | {"format": 3}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_card_is_a_value_error_that_names_its_file_and_the_rest_is_listed(wrong, tmp_path):
    write_entry(tmp_path, "good")
    folder = write_entry(tmp_path, "squares", WRONG[wrong])
    found = zoo.list_models(tmp_path)
    assert found.names == ("good",)
    ((name, reason),) = found.unreadable
    assert name == "squares"
    assert f"{str(folder)!r}, whose model.json cannot be read" in reason
    assert ("Update tfdml" in reason) == wrong.startswith("format")
    assert "good" in str(found)
    assert f"squares: {reason}" in str(found)


def test_a_card_of_another_name_is_listed_as_damaged(tmp_path):
    write_entry(tmp_path, "copy", name="squares")
    found = zoo.list_models(tmp_path)
    assert found.names == ()
    assert "model.json of 'squares'" in dict(found.unreadable)["copy"]


def test_a_list_is_a_table_with_numbers(tmp_path):
    timing = {"milliseconds": 0.254, "batch_size": 32, "hardware": "a processor"}
    write_entry(tmp_path, "a", timing=timing, dimension=128)
    write_entry(tmp_path, "longer-name")
    assert str(zoo.list_models(tmp_path)).splitlines() == [
        "model        Recall@1 %          MAP@R %           dim   MB    ms  data     what it is for",
        "a            91.2 [80.0, 100.0]  12.3 [5.0, 20.0]  128  1.3  0.25  squares  Squares.",
        "longer-name  91.2 [80.0, 100.0]  12.3 [5.0, 20.0]    4  1.3  0.12  squares  Squares.",
    ]
    text = str(zoo.card("a", root=tmp_path))
    assert "0.25 ms per image in batches of 32 on a processor" in text


def test_numbers_at_the_ends_of_their_ranges_are_read(tmp_path):
    metrics = {name: {"value": 0, "low": 0.0, "high": 1} for name in ("recall@1", "map@r")}
    write_entry(tmp_path, "a", seed=-(2**63), metrics=metrics, queries=0, parameters=2**63 - 1)
    assert zoo.list_models(tmp_path).cards[0].seed == -(2**63)


def test_a_card_without_intervals_is_read_and_written(tmp_path):
    metrics = {name: {"value": 0.5, "low": None, "high": None} for name in ("recall@1", "map@r")}
    write_entry(tmp_path, "a", metrics=metrics)
    card = zoo.card("a", root=tmp_path)
    assert card.as_dict()["metrics"] == metrics
    assert "recall@1      50.0\n" in str(card)


def test_a_card_that_could_not_be_read_again_is_not_written(tmp_path):
    write_entry(tmp_path, "a")
    card = replace(zoo.card("a", root=tmp_path), license=None)
    with pytest.raises(ValueError, match="'license' of another type"):
        write_card(tmp_path, card)


def test_an_empty_list_says_so(tmp_path):
    assert str(zoo.list_models(tmp_path)) == "no entries"


def test_no_escape_sequence_of_a_card_reaches_the_terminal(tmp_path, capsys):
    evil = "\x1b]0;evil\x07\nforged: whole\u202e\ud800"
    texts = {key: evil for key, value in CARD.items() if isinstance(value, str) and key not in ("name", "metric")}
    metrics = {**CARD["metrics"], evil: CARD["metrics"]["map@r"]}
    write_entry(tmp_path, "evil", **texts, metrics=metrics, training={evil: evil}, sizes={evil: 1})
    write_entry(tmp_path, "renamed", name=evil)
    for words in (["list"], ["list", "evil"], ["check"]):
        cli.main(["zoo", *words, "--root", str(tmp_path)])
        printed = "".join(capsys.readouterr())
        assert "\x1b" not in printed
        assert "\u202e" not in printed
        assert not [line for line in printed.splitlines() if line.startswith("forged")]
        assert words[0] == "check" or r"\x1b]0;evil\x07\nforged: whole\u202e\ud800" in printed


def test_all_models_of_the_command_line_are_also_those_that_are_damaged(tmp_path, capsys):
    write_entry(tmp_path, "good")
    write_entry(tmp_path, "squares", DEEP)
    assert cli.main(["zoo", "list", "--json", "--root", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert [card["name"] for card in json.loads(printed.out)] == ["good"]
    assert "squares: " in printed.err
    assert cli.main(["zoo", "check", "--root", str(tmp_path)]) == 1
    good, squares = capsys.readouterr().out.splitlines()
    assert good == "good: whole"
    assert squares.startswith("squares: ")
    assert "model.json cannot be read" in squares
