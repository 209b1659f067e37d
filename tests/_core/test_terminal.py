"""Text from files on a terminal, and progress there and none in files."""

import sys

import pytest

from tfdml._core.pages import escape
from tfdml._core.terminal import as_cells, from_cells, show_progress, show_stage, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("one\ntwo\r\t", r"one\ntwo\r\t"),
        ("\x7f\x85\x9b31m", r"\x7f\x85\x9b31m"),  # \x9b alone begins a control sequence
        ("gnp.\u202egpj", r"gnp.\u202egpj"),  # reverses the order on the screen
        ("a\u2028b\udcff", r"a\u2028b\udcff"),
        ("", ""),
    ],
)
def test_control_characters_become_visible(text, expected):
    assert visible(text) == expected


def test_other_text_stays():
    for text in ("Größe/3+4", "日本語\u3000写真", "C:\\photos", "😀", "e\u0301"):
        assert visible(text) == text


def test_no_text_of_a_cell_is_a_formula_and_numbers_stay():
    row = ["=HYPERLINK(1)", "+1", "-2", "@x", "\tx", -0.5, None, "a=b", ""]
    assert as_cells(row) == ["'=HYPERLINK(1)", "'+1", "'-2", "'@x", "'\tx", -0.5, None, "a=b", ""]


def test_cells_are_read_as_the_texts_that_were_written():
    texts = ["=1+1", "'=1+1", "''-2", "'s Gravenhage", "'", "", "-", "a'=b", "\r"]
    assert from_cells(as_cells(texts)) == texts
    assert as_cells(texts)[3:6] == texts[3:6]


def test_text_of_a_page_keeps_its_lines_and_no_control():
    assert escape("<a>\n\u202ecat\x1b") == "&lt;a&gt;\n\\u202ecat\\x1b"


def test_a_terminal_shows_a_bar_that_ends_its_line(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for done in (0, 500, 1000):
        show_progress("examples embedded", done, 1000)
    bars = [f"\rexamples embedded [{bar:<30}] {done}/1,000" for bar, done in [("", "0"), ("=" * 15, "500")]]
    assert capsys.readouterr().err == "".join(bars) + f"\rexamples embedded [{'=' * 30}] 1,000/1,000\n"


def test_a_file_shows_no_bar_but_the_end_of_a_stage(capsys):
    show_progress("examples embedded", 1, 2)
    show_stage("images embedded", 2000)
    assert capsys.readouterr().err == "images embedded: 2,000\n"
