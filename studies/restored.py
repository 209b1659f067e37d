"""Finished runs restored from the committed rows of a study, so that they are not trained again."""

import csv
import json
import os
import types
from dataclasses import fields
from typing import get_args, get_type_hints

from studies import runner


def restore_paper(paper, folder, options):
    """Write the JSON files of the runs of a paper that have a row but no file, and return their number.

    Args:
        paper: a module of studies with `STUDIES` and `result_of`.
        folder: where the CSV files of its studies are.
        options: `runner.Options`, as for `restore`.
    """
    written = 0
    for name, study in paper.STUDIES.items():
        path, kind = folder / f"{name}.csv", getattr(study, "Run", type(options.base))
        rows = list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []
        if rows and {field.name for field in fields(kind)} <= set(rows[0]):  # rows of runs, not of a summary
            written += restore(rows, options, kind, paper.result_of)
    return written


def restore(rows, options, kind, result_of):
    """Write the JSON files of runs that have a row but no file.

    Args:
        rows: rows of a CSV file as texts, from `csv.DictReader`.
        options: `runner.Options`, whose `folder` receives the files.
        kind: the dataclass of the runs.
        result_of: function of a row and its run that returns what `train` returned.

    Returns:
        The number of files written. Rows of watched runs, which share one run, are skipped.
    """
    options.folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for row in rows:
        run = run_of(row, kind)
        path = options.folder / f"{runner.name_of(run)}.json"
        if "step" in row or path.exists():
            continue
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(result_of(row, run), indent=1))
        partial.replace(path)
        written += 1
    return written


def run_of(row, kind):
    """The run of a row: an instance of the dataclass `kind`, each setting with the type of its field."""
    hints = get_type_hints(kind)
    return kind(**{field.name: _typed(row[field.name], hints[field.name]) for field in fields(kind)})


def result_of(row, run):
    """The result of a run, from a row of `runner.rows_of`."""
    validation = {key.removeprefix("validation "): float(row[key]) for key in row if key.startswith("validation ")}
    return {
        "run": vars(run),
        "validation": validation,
        "test": {key: float(row[key]) for key in validation},
        "learned": {key: row[key] for key in row if key.endswith(" boundary")},
        "watched": [],
        "seconds": float(row["seconds"]),
        **{key: row[key] for key in ("protocol", "hardware", "versions")},
    }


def _typed(text, hint):
    """The value that a CSV file has as this text."""
    kinds = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if type(None) in kinds and text == "":
        return None
    if bool in kinds:
        return text == "True"
    for kind in (kind for kind in (int, float) if kind in kinds):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
