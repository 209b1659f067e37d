"""The tables of losses, miners and samplers have all public classes, are those of the code, and sort on the site."""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving.browser import tab
from tfdml import losses, miners, samplers
from tools.tables import __main__ as tables
from tools.tables.cells import public_classes
from tools.tables.measured import measured_cells

SCRIPT = Path(__file__).parent.parent / "docs" / "_static" / "sortable.js"
NODE = shutil.which("node")
CLASSES = {
    "losses": [loss for loss in public_classes(losses) if loss.__name__.endswith("Loss")],
    "miners": public_classes(miners),
    "samplers": [sampler for sampler in public_classes(samplers, samplers.Sampler) if sampler is not samplers.Sampler],
}


def rows_of(page):
    """The rows of the generated table of a page, as dicts by the names in its header."""
    name, _ = tables.TABLES[page]
    table = re.search(rf"<!-- {name} of tools/tables -->(.*?)<!-- end", page.read_text(), flags=re.DOTALL)[1]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)
    return [dict(zip(head, cells, strict=True)) for cells in rows]


@pytest.mark.parametrize("page", tables.TABLES, ids=lambda page: page.stem)
def test_a_table_has_a_row_for_each_public_class(page):
    names = [next(iter(row.values())).strip("`") for row in rows_of(page)]
    assert names == [member.__name__ for member in CLASSES[tables.TABLES[page][0]]]


def test_times_and_retrieval_in_the_table_of_losses_are_the_measured_ones():
    rows = {row["loss"].strip("`"): row for row in rows_of(tables.DOCS / "losses" / "table.md")}
    for loss, measured in measured_cells().items():
        if loss.__name__ in rows:  # and not one of tfdml.addons
            assert {name: rows[loss.__name__][name] for name in measured} == measured


@pytest.mark.slow
@pytest.mark.parametrize("page", tables.TABLES, ids=lambda page: page.stem)
def test_a_table_is_that_of_the_code(page):
    assert tables.filled(page) == page.read_text()


MINUS_3 = "\N{MINUS SIGN}3"
PROGRAM = """
const { key, compare } = new Function(require("fs").readFileSync(process.argv[1], "utf8") + "; return sortable;")();
const sorted = (cells, direction) => [...cells].sort((a, b) => compare(key(a), key(b), direction));
const cells = JSON.parse(process.argv[2]);
console.log(JSON.stringify([sorted(cells, 1), sorted(cells, -1)]));
"""


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_numbers_sort_as_numbers_and_empty_cells_are_last():
    cells = ["9.5", "", "10 ± 2", "1,024", MINUS_3, "yes", "No", "0.2 (with `TripletLoss`)"]
    command = [NODE, "-e", PROGRAM, SCRIPT, json.dumps(cells)]
    up, down = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert up == [MINUS_3, "0.2 (with `TripletLoss`)", "9.5", "10 ± 2", "1,024", "No", "yes", ""]
    assert down == ["yes", "No", "1,024", "10 ± 2", "9.5", "0.2 (with `TripletLoss`)", MINUS_3, ""]


PAGE = """<!doctype html><title>A table</title><script src="sortable.js"></script>
<table><thead><tr><th>loss</th><th>Recall@1</th></tr></thead>
<tbody><tr><td>b</td><td>9.5</td></tr><tr><td>a</td><td></td></tr><tr><td>c</td><td>10.5 ± 1</td></tr></tbody></table>
"""


@pytest.mark.slow
@pytest.mark.browser
def test_a_header_sorts_its_table_by_the_keyboard(tmp_path):
    (tmp_path / "index.html").write_text(PAGE)
    shutil.copy(SCRIPT, tmp_path)
    asyncio.run(sort_by_keyboard(tmp_path))


async def sort_by_keyboard(folder):
    """Tab to the second header, press the space bar, and once more."""
    async with tab(folder / "profile") as page:
        await page.call("Page.navigate", url=(folder / "index.html").as_uri())
        await page.until("document.querySelectorAll('th button').length === 2")
        for key in ("Tab", "Tab", " "):
            await press(page, key)
        names = "[...document.querySelectorAll('td:first-child')].map((cell) => cell.textContent).join('')"
        order = "document.querySelectorAll('th')[1].ariaSort"
        assert (await page.value(names), await page.value(order)) == ("bca", "ascending")
        await press(page, " ")
        assert (await page.value(names), await page.value(order)) == ("cba", "descending")
        assert page.complaints == []


async def press(page, key):
    """A key goes down and up."""
    code = {"Tab": 9, " ": 32}[key]
    for kind in ("keyDown", "keyUp"):
        text = {"text": key} if key == " " and kind == "keyDown" else {}
        await page.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)
