"""Every page is of one kind, and in the side bar once."""

import re

import pytest
from markdown_it import MarkdownIt

from docs.extension import KINDS, ROOT, pages
from docs.extension.accessibility import accessible
from docs.extension.formulas import is_formula
from docs.extension.side_bar import BELOW
from docs.extension.texts import doors

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path != DOCS / "index.md")
DOOR = doors()


def listed():
    """The pages of the side bar: those of the door, and those below them."""
    lists = [*DOOR.values(), *BELOW.values()]
    return [ROOT / name.removeprefix("/") for names in lists for name in names]


def kinds(path):
    return re.findall(r"\A---\nkind: (\S+)\n---\n\n# ", path.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_one_kind_and_is_in_the_side_bar_once(page):
    (kind,) = kinds(page)
    assert kind in KINDS
    assert listed().count(page.with_suffix("")) == 1


def test_the_side_bar_has_five_doors_and_a_reference_and_at_most_40_entries_of_pages_that_are_there():
    assert len(DOOR) == 6
    assert sum(map(len, DOOR.values())) <= 40
    assert [page for page in listed() if page.name != "index" and not page.with_suffix(".md").exists()] == []
    assert {name for names in DOOR.values() for name in names} >= set(BELOW)


def test_the_readme_fits_on_a_screen_and_a_half():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.split()) <= 600
    assert readme.count("](") <= 30


def test_every_picture_of_a_page_has_a_text_in_its_place():
    for page in [*PAGES, DOCS / "index.md", ROOT / "README.md"]:
        assert "![](" not in page.read_text(), page
    door = (DOCS / "index.md").read_text()
    assert door.count(":img-top:") == door.count(":img-alt: ") == 2


@pytest.mark.parametrize("page", [*pages(), *ROOT.glob("*.md")], ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_code_fits_into_the_column_of_the_site(page):
    blocks = [token for token in MarkdownIt().parse(page.read_text()) if token.type in ("fence", "code_block")]
    code = [token.content for token in blocks if token.type == "fence" or not is_formula(token.content)]
    assert [line for block in code for line in block.splitlines() if len(line) > 88] == []


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<pre><span>1</span></pre>", '<pre tabindex="0"><span>1</span></pre>'),
        ('<div class="table-wrapper docutils">', '<div tabindex="0" class="table-wrapper docutils">'),
        ('<th class="head"><p></p></th>', '<td class="head"></td>'),
        (
            "<dl>\n<dd><em>a</em>,</dd>\n<dd><em>b</em></dd>\n</dl>",
            '<span class="sig-lines">\n<span class="sig-line"><em>a</em>,</span>\n'
            '<span class="sig-line"><em>b</em></span>\n</span>',
        ),
        ("<dl>\n<dt>a</dt><dd>b</dd>\n</dl>", "<dl>\n<dt>a</dt><dd>b</dd>\n</dl>"),
    ],
)
def test_pages_get_what_a_keyboard_and_a_screen_reader_need(html, expected):
    assert accessible(html) == expected
    assert accessible(expected) == expected
