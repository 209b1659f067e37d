"""The tables of docs/two-towers.md: product search and localization, from the results of their recipes.

python recipes/product_search.py --output benchmarks/results/product_search
python recipes/localization.py --output benchmarks/results/localization
python -m studies.two_domains
"""

import json

import numpy as np

import tfdml
from studies import pages

PAGE = pages.ROOT / "docs" / "two-towers.md"
NAMES = {
    "A": "A: classifier of categories, its features",
    "B": "B: contrastive loss",
    "C": "C: both",
    "D": "D: both, norm 1",
    "pixels": "gray pixels, no training",
    "separate": "towers of separate weights",
    "shared": "towers of shared weights",
}


def results(name):
    """The record that a recipe wrote."""
    return json.loads((pages.RESULTS / name / "results.json").read_text())


def table(record):
    """One row per architecture, means with intervals over seeds, and the difference of two of them."""
    runs = record["results"]
    keys = list(next(iter(runs.values()))[0])
    lines = ["| | " + " | ".join(keys) + " |", "| --- |" + " ---: |" * len(keys)]
    lines += [
        f"| {NAMES[name]} | " + " | ".join(cell(of_seeds, key) for key in keys) + " |"
        for name, of_seeds in runs.items()
    ]
    (what,) = (key for key in record if " - " in key)
    mean, low, high = (100 * value for value in record[what])
    about = f"Protocol `{record['protocol']}`. Difference {what}: {mean:.1f} [{low:.1f}, {high:.1f}]. "
    return "\n".join(
        [*lines, "", f"{about}{record['processor_seconds']:.0f} seconds of processor time; {record['hardware']}."]
    )


def cell(runs, key):
    """The mean of a metric, with its interval if there are several seeds."""
    values = 100 * np.array([run[key] for run in runs])
    if len(values) == 1:
        return f"{values[0]:.1f}"
    low, high = tfdml.metrics.seed_interval(values)
    return f"{values.mean():.1f} [{low:.1f}, {high:.1f}]"


def filled(text):
    """The page with both tables."""
    for name in ("product_search", "localization"):
        text = pages.replaced(text, f"<!-- {name} -->", table(results(name)))
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
