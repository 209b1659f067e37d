"""The tables of docs/cleaning.md, from the results of recipes/cleaning.py and studies/made_pictures.py.

    python recipes/cleaning.py --output results/cleaning
    python -m studies.made_pictures
    python -m studies.cleaning

Of the first command, only results.json is kept.
"""

import json

import numpy as np

from studies import pages, runner

RESULTS, PAGE = pages.RESULTS / "cleaning" / "results.json", pages.ROOT / "docs" / "cleaning.md"
MADE, MADE_MARK = pages.RESULTS / "cleaning" / "made-pictures.json", "<!-- made of studies/cleaning -->"
COPIES_MARK, PLANTED_MARK = "<!-- copies of studies/cleaning -->", "<!-- planted of studies/cleaning -->"
WAYS = {"verified": "network, verified by pixels", "network": "network alone", "pHash": "pHash", "dHash": "dHash"}
COLUMNS = ("precision", "recall", "crop", "jpeg", "resize", "watermark")


def copies_table(record):
    """Precision and recall by way, mean over seeds with its 95% interval, as a Markdown table."""
    body = [[name, *(cell(*record["results"][way][column]) for column in COLUMNS)] for way, name in WAYS.items()]
    return runner.markdown(["", *COLUMNS], body, ["---", *["---:"] * len(COLUMNS)])


def cell(mean, low, high):
    """A mean and half of the width of its interval."""
    return f"{mean:.3f} ± {(high - low) / 2:.3f}"


def planted_table(record):
    """Planted and listed findings by kind, as a Markdown table."""
    columns = ("planted", "right", "listed")
    body = [[kind, *(row[column] for column in columns)] for kind, row in record["planted"].items()]
    return runner.markdown(["", *columns], body, ["---", *["---:"] * len(columns)])


def made_table(record):
    """Mean precision and recall by kind of pictures, as a Markdown table."""
    kinds, body = [kind for kind in record["runs"][0] if kind not in ("seed", "threshold")], []
    for kind in kinds:
        values = [[run[kind][column] for column in COLUMNS] for run in record["runs"]]
        body.append([kind, *(f"{mean:.3f}" for mean in np.mean(values, axis=0))])
    return runner.markdown(["", *COLUMNS], body, ["---", *["---:"] * len(COLUMNS)])


def filled(page=PAGE):
    """The text of the page with its tables."""
    record = json.loads(RESULTS.read_text())
    text = pages.replaced(page.read_text(), COPIES_MARK, copies_table(record))
    text = pages.replaced(text, MADE_MARK, made_table(json.loads(MADE.read_text())))
    return pages.replaced(text, PLANTED_MARK, planted_table(record))


if __name__ == "__main__":
    PAGE.write_text(filled())
