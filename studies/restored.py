"""Finished runs restored from the committed rows of a study, so that they are not trained again."""

import json
import types
from dataclasses import fields
from typing import get_args, get_type_hints

from studies import runner


def restore(rows, options):
    """Write the JSON files of runs that have a row but no file.

    Args:
        rows: rows of a CSV file as texts, from `csv.DictReader`, with the columns of `runner.rows_of`.
        options: `runner.Options`, whose `base` has the class of the runs and whose `folder` receives the files.

    Returns:
        The number of files written. Rows of watched runs, which share one run, are skipped.
    """
    options.folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for row in rows:
        run = run_of(row, type(options.base))
        path = options.folder / f"{runner.name_of(run)}.json"
        if "step" in row or path.exists():
            continue
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(result_of(row, run), indent=1))
        partial.replace(path)
        written += 1
    return written


def run_of(row, kind):
    """The run of a row: an instance of the dataclass `kind`, each setting with the type of its field."""
    hints = get_type_hints(kind)
    return kind(**{field.name: _typed(row[field.name], hints[field.name]) for field in fields(kind)})


def result_of(row, run):
    """The result of a run as `train` returned it, from its row."""
    validation = {key.removeprefix("validation "): float(row[key]) for key in row if key.startswith("validation ")}
    return {
        "run": vars(run),
        "validation": validation,
        "test": {key: float(row[key]) for key in validation},
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
