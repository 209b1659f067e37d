"""Progress on a terminal, and none in files."""

import sys

from tfdml._core.terminal import show_progress


def test_a_terminal_shows_a_bar_that_ends_its_line(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for done in (0, 500, 1000):
        show_progress("examples embedded", done, 1000)
    bars = [f"\rexamples embedded [{bar:<30}] {done}/1,000" for bar, done in [("", "0"), ("=" * 15, "500")]]
    assert capsys.readouterr().err == "".join(bars) + f"\rexamples embedded [{'=' * 30}] 1,000/1,000\n"


def test_a_file_shows_none(capsys):
    show_progress("examples embedded", 1, 2)
    assert capsys.readouterr().err == ""
