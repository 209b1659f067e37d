"""Writes the notebooks of the tutorials, `docs/notebooks/*.ipynb`, from the pages in `docs/tutorials`.

    python tools/notebooks.py             # made, and run where code has changed: ten minutes on two cores for all
    python tools/notebooks.py --check     # fails if a page has changed since its notebook was made

Cells are the text and the Python blocks of a page, by jupytext. The first cell installs.
"""

import argparse
import re
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted((DOCS / "tutorials").glob("*.md"))
INSTALL = '%pip install --quiet "tfdml[tensorflow,evaluation,plots]"\n%matplotlib inline'


def notebook(page):
    """The cells of a page, not run."""
    text = re.sub(r"\A---\n.*?\n---\n+", "", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"\]\(([\w-]+)\.md", r"](\1.ipynb", text)  # tutorials link to each other
    cells = jupytext.reads(text, fmt="md").cells
    for cell in cells:
        cell.metadata = {}
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(INSTALL), *cells])
    made.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"
    return made


def executed(made, folder):
    """The notebook with the outputs of its cells, run in a folder. The packages are installed already."""
    install, *cells = made.cells
    inline = nbformat.v4.new_code_cell(INSTALL.splitlines()[1])
    running = nbformat.from_dict({**made, "cells": [inline, *cells]})
    NotebookClient(
        running, timeout=1200, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return nbformat.from_dict({**running, "cells": [install, *map(_without_noise, running.cells[1:])]})


def with_kept_outputs(made, path):
    """The notebook in a file with the text of another one; None if its code is not the same."""
    if not path.exists():
        return None
    old = nbformat.read(path, as_version=4)
    code = iter(cell for cell in old.cells if cell.cell_type == "code")
    sources_of_code = [[cell.source for cell in each.cells if cell.cell_type == "code"] for each in (old, made)]
    if sources_of_code[0] != sources_of_code[1]:
        return None
    cells = [{**(next(code) if cell.cell_type == "code" else cell), "id": cell.id} for cell in made.cells]
    return nbformat.from_dict({**old, "cells": cells})


def _without_noise(cell):
    """A cell without messages of TensorFlow and times of execution."""
    cell.metadata = {}
    if cell.cell_type == "code":
        cell.outputs = [output for output in cell.outputs if not _is_noise(output)]
    return cell


def _is_noise(output):
    return output.get("name") == "stderr" or output.get("text", "").startswith(("INFO:", "WARNING:"))


def path_of(page):
    """The notebook of a page."""
    return DOCS / "notebooks" / f"{page.stem}.ipynb"


def sources(made):
    """Kind and text of each cell."""
    return [(cell.cell_type, cell.source) for cell in made.cells]


def stale():
    """Pages that differ from their notebooks, and pages without one."""
    return [
        page
        for page in PAGES
        if not path_of(page).exists() or sources(nbformat.read(path_of(page), as_version=4)) != sources(notebook(page))
    ]


def main():
    """Write the notebooks, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page has changed")
    options = parser.parse_args()
    changed = stale()
    if options.check:
        raise SystemExit(f"run python tools/notebooks.py for {', '.join(p.name for p in changed)}" if changed else 0)
    for page in changed:
        made = with_kept_outputs(notebook(page), path_of(page))
        if made is None:
            with tempfile.TemporaryDirectory() as folder:
                made = executed(notebook(page), folder)
        path_of(page).parent.mkdir(exist_ok=True)
        nbformat.write(made, path_of(page))
        print(f"wrote {path_of(page).relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
