"""The notebooks are the tutorials, and run."""

import re

import nbformat
import pytest

from tests.test_documents import short
from tests.test_stale import ROOT, tool

notebooks = tool("notebooks")
IDS = {"ids": lambda page: page.stem}


def test_each_tutorial_has_its_notebook():
    assert len(notebooks.PAGES) == 6
    assert notebooks.stale() == [], "python tools/notebooks.py"


@pytest.mark.parametrize("page", notebooks.PAGES, **IDS)
def test_a_notebook_installs_first_links_to_files_and_has_outputs(page):
    made = nbformat.read(notebooks.path_of(page), as_version=4)
    nbformat.validate(made)
    assert made.cells[0].source.startswith("%pip install")
    links = [link for cell in made.cells for link in re.findall(r"\]\(([^)#:]+)[)#]", cell.source)]
    assert links
    assert [link for link in links if not (ROOT / "docs" / "notebooks" / link).exists()] == []
    assert not any(output.output_type == "error" for cell in made.cells[1:] for output in cell.get("outputs", []))
    assert any(cell.get("outputs") for cell in made.cells)


def test_the_first_model_shows_pictures():
    made = nbformat.read(ROOT / "docs" / "notebooks" / "first-model.ipynb", as_version=4)
    assert sum("image/png" in output.get("data", {}) for cell in made.cells for output in cell.get("outputs", [])) == 2


def test_noise_is_left_out():
    cell = nbformat.v4.new_code_cell("1", metadata={"execution": {"iopub.status.busy": "2026"}})
    for name, text in (("stderr", "slow"), ("stdout", "INFO:tensorflow:Assets"), ("stdout", "1")):
        cell.outputs.append(nbformat.v4.new_output("stream", name=name, text=text))
    kept = notebooks._without_noise(cell)
    assert [output.text for output in kept.outputs] == ["1"]
    assert kept.metadata == {}


def test_a_page_whose_text_alone_has_changed_keeps_the_outputs(tmp_path):
    code = nbformat.v4.new_code_cell("1 + 1", outputs=[nbformat.v4.new_output("stream", text="2")], execution_count=1)
    path = tmp_path / "old.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("old"), code]), path)
    cells = [nbformat.v4.new_markdown_cell("new"), nbformat.v4.new_code_cell("1 + 1")]
    kept = notebooks.with_kept_outputs(nbformat.v4.new_notebook(cells=cells), path)
    assert [cell.source for cell in kept.cells] == ["new", "1 + 1"]
    assert (kept.cells[1].outputs[0].text, kept.cells[1].execution_count) == ("2", 1)
    cells[1].source = "1 + 2"
    assert notebooks.with_kept_outputs(nbformat.v4.new_notebook(cells=cells), path) is None
    assert notebooks.with_kept_outputs(nbformat.v4.new_notebook(cells=cells), tmp_path / "none.ipynb") is None


@pytest.mark.slow
@pytest.mark.parametrize("page", notebooks.PAGES, **IDS)
def test_a_notebook_runs(page, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = notebooks.notebook(page)
    for cell in made.cells:
        cell.source = short(cell.source)
    done = notebooks.executed(made, tmp_path)
    assert done.cells[0].source == notebooks.INSTALL
    assert any(cell.get("outputs") for cell in done.cells)
