"""Tables of pages, which are rebuilt from the rows of studies, and where rows, figures and pages are."""

import re
from pathlib import Path

import numpy as np

import tfdml

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
IMAGES = ROOT / "docs" / "images"


def interval(values):
    """The mean of the values of seeds, and the ends of its 95% interval: three times a single value."""
    ends = tfdml.metrics.seed_interval(values) if len(values) > 1 else (values[0], values[0])
    return float(np.mean(values)), *ends


def plus_minus(values, digits=1, unit=100):
    """The mean of the values of seeds and half of its 95% interval, "83.8 ± 2.4"; the mean alone of a single seed."""
    mean, low, high = interval(values)
    half = f" ± {unit * (high - low) / 2:.{digits}f}" if len(values) > 1 else ""
    return f"{unit * mean:.{digits}f}{half}"


def filled(text, tables, source):
    """A page with its tables replaced.

    A table stands between `<!-- NAME of SOURCE -->` and `<!-- end of table -->`.

    Args:
        text: the page.
        tables: dict of name to Markdown table.
        source: what makes the tables, as in the marks.

    Raises:
        ValueError: if the page has no mark for one of the tables.
    """
    for name, table in tables.items():
        text = replaced(text, f"<!-- {name} of {source} -->", table)
    return text


def machines(rows):
    """The machines and versions of rows in one line: "AMD EPYC, 2 cores; python 3.11.7, keras 3.15.0 and 3.15.1"."""
    versions = {}
    for package, _, number in (each.rpartition(" ") for row in rows for each in row["versions"].split(", ")):
        versions.setdefault(package, {})[number] = None
    packages = ", ".join(f"{package} {' and '.join(numbers)}" for package, numbers in versions.items())
    return f"{'; '.join(dict.fromkeys(row['hardware'] for row in rows))}; {packages}"


def replaced(text, mark, table):
    """The page with what stands between the mark and the next end of a table replaced."""
    pattern = re.escape(mark) + ".*?<!-- end of table -->"
    whole = f"{mark}\n{table}\n<!-- end of table -->"
    text, number = re.subn(pattern, lambda _: whole, text, flags=re.DOTALL)
    if number != 1:
        raise ValueError(
            f"Received a page with {number} tables marked {mark}, expected 1. Mark the place of the table."
        )
    return text
