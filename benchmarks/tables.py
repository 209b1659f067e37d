"""Fills the tables of benchmarks/README.md and other pages from the CSV files of the last run.

    python benchmarks/tables.py

A table stands between `<!-- results/NAME.csv: columns -->` and `<!-- end -->`. It leaves out columns without a value,
and is empty where the file is missing, such as one of a GPU.
"""

import csv
import re
from pathlib import Path

from _report import format_cell

ROOT = Path(__file__).parents[1]
NAMES = ["losses/proxies", "clustering", "server", "tuning", "many-devices", "speed", "distributed"]
NAMES += ["model-upgrades", "runtimes", "jax-and-gpus"]
PAGES = [ROOT / "benchmarks" / "README.md", *(ROOT / "docs" / f"{name}.md" for name in NAMES)]


def filled(text):
    """The text with every table rebuilt."""
    return re.sub(r"(<!-- (\S+\.csv): (.*?) -->\n).*?(<!-- end -->)", _fill, text, flags=re.DOTALL)


def _fill(found):
    path = ROOT / found[2]
    if not path.exists():  # measured on a machine that was not at hand
        return found[1] + found[4]
    rows = list(csv.DictReader(path.read_text().splitlines()))
    columns = [column for column in found[3].split(", ") if any(row[column] for row in rows)]
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    lines += ["| " + " | ".join(_cell(row[column]) for column in columns) + " |" for row in rows]
    about = f"{rows[0]['hardware']}; {rows[0]['versions']}."
    return found[1] + "\n".join([*lines, "", about]) + "\n" + found[4]


def _cell(value):
    try:
        return value if value.isdigit() else format_cell(float(value))
    except ValueError:
        return value


def main():
    """Write the pages."""
    for page in PAGES:
        page.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
