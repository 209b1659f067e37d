"""How pages of studies are made: runs trained, rows kept, pictures drawn, tables written between their marks."""

import argparse
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


def rows(folder, name):
    """The kept rows of a study."""
    return importlib.import_module("recipes.studies").read_rows(
        ROOT / "benchmarks" / "results" / folder / f"{name}.csv"
    )


def study(folder, name):
    """The module of a study."""
    return importlib.import_module(f"recipes.{folder}.{name}")


def filled(text, benchmark, tables, about):
    """A page with the tables between their marks made anew.

    Args:
        text: the page.
        benchmark: file name of the benchmark, which stands in the marks.
        tables: dict of the name in the mark to the table.
        about: what every table is followed by: on what it was measured.
    """
    for mark, table in tables.items():
        marks = f"<!-- {mark} of benchmarks/{benchmark} -->", "<!-- end of table -->"
        pattern = re.escape(marks[0]) + ".*?" + re.escape(marks[1])
        whole = f"{marks[0]}\n{table}\n\n{about}\n{marks[1]}"
        text = re.sub(pattern, lambda _, whole=whole: whole, text, flags=re.DOTALL)
    return text


def main(description, folder, prefix, studies, page, fill):
    """Train what is missing, keep the rows, draw and write.

    Args:
        description: of the command line.
        folder: of the studies under `recipes`, and of their results.
        prefix: of the pictures under `docs/images`.
        studies: names of the studies.
        page: path of the page.
        fill: function that makes the tables of the page anew.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only-tables", action="store_true", help="train nothing")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / folder)
    options = parser.parse_args()
    results = ROOT / "benchmarks" / "results" / folder
    results.mkdir(parents=True, exist_ok=True)
    for name in studies:
        if not options.only_tables:
            command = [sys.executable, "-m", f"recipes.{folder}.{name}", "--output", options.runs.absolute()]
            subprocess.run(command, check=True, cwd=ROOT)
            shutil.copy(options.runs / f"{name}.csv", results / f"{name}.csv")
        if hasattr(study(folder, name), "draw"):
            study(folder, name).draw(ROOT / "docs" / "images" / f"{prefix}-{name}.png", rows(folder, name))
    page.write_text(fill(page.read_text()))
