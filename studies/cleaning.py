"""The tables of docs/cleaning.md, from the results of recipes/cleaning.py.

    python recipes/cleaning.py --output benchmarks/results/cleaning
    python -m studies.cleaning

Only results.json of that folder is kept.
"""

import json

from studies import pages, runner

RESULTS, PAGE = pages.RESULTS / "cleaning" / "results.json", pages.ROOT / "docs" / "cleaning.md"
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


def filled(page=PAGE):
    """The text of the page with its tables."""
    record = json.loads(RESULTS.read_text())
    text = pages.replaced(page.read_text(), COPIES_MARK, copies_table(record))
    return pages.replaced(text, PLANTED_MARK, planted_table(record))


if __name__ == "__main__":
    PAGE.write_text(filled())
