"""Tables of pages from the results of recipes.

python -m recipes.product_search --output results/product_search
python -m recipes.localization --output results/localization
python recipes/reranking.py --output results/reranking
python -m recipes.faces --seeds 5 --output results/faces
python -m studies.tables
"""

import functools
import json

import numpy as np

from studies import pages, runner

NAMES = {
    "A": "A: classifier of categories, its features",
    "B": "B: contrastive loss",
    "C": "C: both",
    "D": "D: both, norm 1",
    "pixels": "gray pixels, no training",
    "separate": "towers of separate weights",
    "shared": "towers of shared weights",
    "search": "the search",
    "cosine of maps": "re-ranked by the cosine of the maps, no training",
    "model of pairs": "re-ranked by the model of pairs",
    "networks for search": "two networks for search, untouched",
    "networks for search, relative": "the same, relative to neighborhoods",
    "margin loss": "two networks tuned by the margin loss",
    "margin loss, relative": "the same, relative to neighborhoods",
}


def results(recipe):
    """The record that a recipe wrote."""
    return json.loads((pages.RESULTS / recipe / "results.json").read_text())


def seeds_table(record):
    """One row per network, means with intervals over seeds; then the difference of two of them over classes."""
    runs = record["results"]
    keys = list(next(iter(runs.values()))[0])
    columns = {key: {name: [run[key] for run in values] for name, values in runs.items()} for key in keys}
    (difference,) = (key for key in record if " - " in key)
    return f"{table(columns)}\n\nDifference {difference}: {interval(*record[difference])}. {source(record)}"


def reranking_table(record):
    """Recall@1 of the search and of re-ranked neighbors; then the gains over classes."""
    gains = "; ".join(
        f"{NAMES[name]}: {interval(gain['mean'], *gain['over classes'])}" for name, gain in record["gains"].items()
    )
    return f"{table({'Recall@1': record['recall@1']})}\n\nGain over the search: {gains}. {source(record)}"


def verification_table(record):
    """Accuracy of each method with its interval over seeds, its mean standard error over folds, and the EER."""
    runs = record["results"]
    body = []
    for name, values in runs.items():
        accuracy, error, eer = ([run[key] for run in values] for key in ("accuracy", "accuracy_se", "eer"))
        body.append([NAMES[name], cell(accuracy, 2), f"{100 * np.mean(error):.2f}", cell(eer, 2)])
    return f"{runner.markdown(['', 'accuracy', 'error over folds', 'EER'], body, texts=(0,))}\n\n{source(record)}"


def table(columns):
    """A Markdown table of columns, each a dict of row name to the values of its seeds."""
    body = [
        [NAMES[name], *(cell(column[name]) for column in columns.values())] for name in next(iter(columns.values()))
    ]
    return runner.markdown(["", *columns], body, texts=(0,))


def cell(values, digits=1):
    """The mean in percent, with its interval if there are several seeds."""
    mean, low, high = pages.interval(values)
    return interval(mean, low, high, digits=digits) if len(values) > 1 else f"{100 * mean:.{digits}f}"


def interval(mean, low, high, digits=1):
    """A value and its interval in percent."""
    return f"{100 * mean:.{digits}f} [{100 * low:.{digits}f}, {100 * high:.{digits}f}]"


def source(record):
    """What was measured, how long and where."""
    seconds = f"{record['processor_seconds']:.0f} seconds of processor time"
    return f"Protocol `{record['protocol']}`; {seconds}, {record['hardware']}."


def filled(recipe, table, text):
    """The text of a page with the table of a recipe."""
    return pages.replaced(text, f"<!-- {recipe} -->", table(results(recipe)))


TABLES = {
    "product_search": ("recipes/product_search/README.md", seeds_table),
    "localization": ("recipes/localization/README.md", seeds_table),
    "reranking": ("docs/pair-models.md", reranking_table),
    "faces": ("docs/verification.md", verification_table),
}
FILLED = {
    recipe: (pages.ROOT / page, functools.partial(filled, recipe, table)) for recipe, (page, table) in TABLES.items()
}
