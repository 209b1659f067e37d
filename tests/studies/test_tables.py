"""The tables of every page are those of the committed rows."""

import re

import pytest

from studies import pages, tables

README = pages.ROOT / "README.md"


@pytest.mark.parametrize("source", tables.FILLED)
def test_the_tables_of_a_page_are_those_of_the_rows(source):
    page, filled = tables.FILLED[source]
    text = page.read_text()
    assert "| --- |" in text
    assert filled(text) == text
    assert filled(re.sub(r"^\| .*", "", text, flags=re.MULTILINE)).count("| ") > text.count("\n| --- |")


def test_every_table_of_rows_has_a_source_that_fills_it():
    made = {}
    for path in [*pages.ROOT.glob("docs/**/*.md"), *(pages.ROOT / "recipes").rglob("*.md"), README]:
        made.update(dict.fromkeys(re.findall(r"<!-- [^>]* of (studies/\w+) -->", path.read_text()), path))
    filled = {source.split(" of ")[0].replace(".", "/") for source in tables.FILLED}
    assert set(made) - filled == {"studies/first_run"}  # what a command prints


def test_a_page_without_the_mark_of_a_table_is_an_error():
    text = "a\n<!-- one of studies/x -->\nold\n<!-- end of table -->\nb"
    made = pages.filled(text, {"one": "| \\1 |"}, "studies/x")
    assert made == text.replace("old", "| \\1 |")
    with pytest.raises(ValueError, match="0 tables marked <!-- two of studies/x -->, expected 1"):
        pages.filled(text, {"two": ""}, "studies/x")


def test_numbers_of_two_days_or_cards_of_a_gpu_are_not_in_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    rows = [
        "ms,batch,device,measured,versions,hardware",
        "1.5,64,H200,2026-11-28,1,a CPU",
        "2,64,H200,2026-11-29,1,a CPU",
    ]
    page = "<!-- gpu.csv: ms -->\n<!-- end -->"
    (tmp_path / "gpu.csv").write_text("\n".join(rows[:2]))
    assert "| 1.5 |" in tables.of_benchmarks(page)
    (tmp_path / "gpu.csv").write_text("\n".join(rows))
    with pytest.raises(ValueError, match="two days or cards of a GPU"):
        tables.of_benchmarks(page)


def test_the_readme_says_what_its_pages_say():
    readme, docs = README.read_text(), pages.ROOT / "docs"
    compared = re.findall(r"^```text\n(map@r, .*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    assert len(compared) == 1
    assert compared[0] in (docs / "compare.md").read_text()
    methods = max(map(int, re.findall(r"is first of (\d+) methods", (docs / "leaderboard.md").read_text())))
    assert f"[{methods} methods](docs/leaderboard.md)" in readme
