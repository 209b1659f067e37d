"""The tables of every page are those of the committed rows."""

import importlib
import re

import pytest

from studies import __main__ as command
from studies import (
    cleaning,
    ensembles,
    few_shot,
    fixed_features,
    glyphs,
    glyphs_choice,
    keras_examples,
    pages,
    patches,
    photo_patches,
    photo_starts,
    precision,
    recipe_tables,
    runner,
    things,
    tracking,
)

README = pages.ROOT / "README.md"


def with_table(page, mark, make, rows):
    return pages.replaced(page.read_text(), mark, make(runner.read_rows(rows)))


def of_paper(paper):
    """The page of a paper with all its tables."""
    module = command.PAPERS[paper]
    page = (pages.ROOT / module.PAGE).read_text()
    return command.filled(page, paper, module.STUDIES, pages.RESULTS / paper)


# Each page, and a function that makes its text again.
PAGES = {
    "glyphs": (README, lambda page: with_table(page, glyphs.MARK, glyphs.table, glyphs.ROWS)),
    "glyphs_choice": (
        glyphs_choice.PAGE,
        lambda page: with_table(page, glyphs_choice.MARK, glyphs_choice.table, glyphs_choice.ROWS),
    ),
    "precision": (precision.PAGE, lambda page: with_table(page, precision.MARK, precision.section, precision.ROWS)),
    "fixed_features": (
        fixed_features.PAGE,
        lambda page: fixed_features.filled(page.read_text(), runner.read_rows(fixed_features.ROWS)),
    ),
    "tracking": (tracking.PAGE, lambda page: tracking.filled()),
    **{module.__name__: (module.PAGE, module.filled) for module in (cleaning, few_shot)},
    **{
        module.__name__: (module.PAGE, lambda page, module=module: module.filled(page.read_text()))
        for module in (keras_examples, patches, photo_patches, photo_starts, things)
    },
    **{
        paper: (pages.ROOT / module.PAGE, lambda page, paper=paper: of_paper(paper))
        for paper, module in command.PAPERS.items()
    },
    **{str(page.relative_to(pages.ROOT)): (page, ensembles.filled) for page in ensembles.PAGES},
    **{f"{page.relative_to(pages.ROOT)}, recipes": (page, recipe_tables.filled) for page in recipe_tables.PAGES},
}


@pytest.mark.parametrize("name", PAGES)
def test_the_tables_of_a_page_are_those_of_the_rows(name):
    page, filled = PAGES[name]
    assert "| --- |" in page.read_text()
    assert filled(page) == page.read_text()


def test_the_tables_of_the_benchmarks_are_those_of_their_results(monkeypatch):
    monkeypatch.syspath_prepend(str(pages.ROOT / "benchmarks"))
    tables = importlib.import_module("tables")
    for page in tables.PAGES:
        assert "<!-- results/" in page.read_text()
        assert tables.filled(page.read_text()) == page.read_text()


def test_the_readme_has_the_numbers_of_photo_patches():
    table = photo_patches.PAGE.read_text().partition(f"of {photo_patches.SOURCE} -->")[2]
    trained, sift = (
        re.search(rf"^\| {name} \| ([\d.]+)", table, re.MULTILINE)[1] for name in ("trained network", "SIFT")
    )
    assert f"photographs: {trained}% Recall@1 by a small network, {sift}% by SIFT" in README.read_text()
