"""A selection as a table, and as a page on which its images are labeled."""

import base64
import hashlib
import json
import os
from pathlib import Path

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import names_of_labels, require
from tfdml._core.pages import Card, cards, document, escape, style_sheet
from tfdml._core.terminal import write_table
from tfdml.cleaning.findings import listed_files, picture_of
from tfdml.cleaning.selection import Selection
from tfdml.datasets import LabeledSet
from tfdml.typing import FilePath

_TABLE, _PAGE = "selected.csv", "label.html"
_COLUMNS = ("path", "rule", "similarity")
_SCRIPT = r"""
"use strict";
const known = JSON.parse(document.getElementById("known").textContent);
const fields = [...document.querySelectorAll("input[name]")];
const labels = () => fields.map(({ name, value }) => [name, value.trim()]).filter(([, value]) => value !== "");
const cell = (text) => `"${text.replaceAll('"', '""')}"`; // as typed: a table is read as it is
let isSaved = true;
function show() {
  document.getElementById("count").textContent = `${labels().length} of ${fields.length} labeled`;
}
function save() {
  const rows = [["path", "label"], ...known, ...labels()];
  const text = rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
  const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  Object.assign(document.createElement("a"), { href, download: "labels.csv" }).click();
  isSaved = true;
}
document.getElementById("save").addEventListener("click", save);
addEventListener("input", () => {
  isSaved = false;
  show();
});
addEventListener("beforeunload", (event) => isSaved || event.preventDefault());
show();
"""


def write_selection(selection: Selection, data: LabeledSet, path: FilePath, *, root: FilePath = ".") -> Path:
    """Write a folder of a table, `selected.csv`, and a page, `label.html`, in one step.

    The page shows the selected images, each with a field for its label, and needs no network. "Save" makes a table,
    `labels.csv`, of the columns path and label: the typed labels, and those that the set had. In the folder `root`,
    `tfdml train` reads it, and so do `tfdml select --labels` and `tfdml index set --table`.

    Example: two of four files.

        >>> for number in range(4):
        ...     keras.utils.save_img(f"{number}.png", np.full((8, 8, 3), 60 * number))
        >>> data = tfdml.datasets.table({"path": [f"{number}.png" for number in range(4)]}, label=None)
        >>> selection = tfdml.cleaning.select(np.eye(4), 2)
        >>> folder = tfdml.cleaning.write_selection(selection, data, "to-label")
        >>> sorted(path.name for path in folder.iterdir())
        ['label.html', 'selected.csv']

    Args:
        selection: of `select`, from the embeddings of `data`.
        data: a set of files.
        path: a new folder, or one that this function wrote; it is returned.
        root: folder to which the paths of the tables are relative.

    Raises:
        FileExistsError: a folder with other files; the first one is named.
    """
    require(data.paths is not None, "a set without paths", "image files")
    names = [os.path.relpath(name, Path(root).expanduser()) for name in np.asarray(data.paths).tolist()]
    with atomic_write(path, selection_files) as new:
        new.mkdir()
        chosen = [names[row] for row in selection.rows]
        similarity = ["" if value != value else round(float(value), 4) for value in selection.similarity]
        write_table(new / _TABLE, [_COLUMNS, *zip(chosen, selection.rules, similarity, strict=True)])
        (new / _PAGE).write_text(_page(selection, data, names), encoding="utf-8")
    return Path(path).expanduser()


def selection_files(folder: Path) -> set[str]:
    """The files of a folder, if its table is a selection."""
    return listed_files(folder, _TABLE, _PAGE, _COLUMNS)


def _page(selection, data, names):
    labels = names_of_labels(data)
    labeled = [[name, label] for name, label in zip(names, labels, strict=True) if label is not None]
    options = "".join(f'<option value="{escape(name)}">' for name in data.class_names)
    pictures = cards(_card(data.paths[row], names[row]) for row in selection.rows)
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    body = (
        '<header><h1>Label these</h1>\n<p>Leave a field empty to skip its image. <span id="count"></span> '
        f'<button id="save" type="button">Save labels.csv</button></p></header>\n<main>{pictures}</main>\n'
        f'<datalist id="classes">{options}</datalist>\n'
        f'<script type="application/json" id="known">{json.dumps(labeled).replace("<", chr(92) + "u003c")}</script>\n'
        f"<script>{_SCRIPT}</script>\n"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<style>\n{style_sheet('tfdml._core.pages', 'report.css')}"
        "figcaption input { box-sizing: border-box; width: 100%; font: inherit; }\n</style>\n"
    )
    return document("Label these", body, head=head)


def _card(path, name):
    field = f'<input name="{escape(name)}" aria-label="Label of {escape(name)}" list="classes" autocomplete="off">'
    return Card(name, f"{field}<br>{escape(name)}", image=picture_of(path))
