"""How much better than the contrastive loss, in the papers and here: relative improvements.

As figure 5 of Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020, over the methods of these papers.
"""

import csv
import statistics

from studies import pages, runner
from studies.claims.evidence import BOARDS, LEADERBOARD, rows_of

PUBLISHED = pages.ROOT / "recipes" / "benchmarks.csv"
FIRST = "weighted-contrastive"
BASE = "contrastive"
# Methods, and the tables in which a paper has them and the contrastive loss, with the names there.
METHODS = {
    "triplet": (FIRST, "triplet", BASE),
    "n-pairs": (FIRST, "n-pairs", BASE),
    "lifted structure": (FIRST, "lifted", BASE),
    "clustering": (FIRST, "cluster", BASE),
    "balanced contrastive": (FIRST, "balanced", BASE),
    "margin": ("sampling-matters-1", "sm-margin-dw", "sm-contrastive-random"),
}


def table():
    """Relative improvements of Recall@1: the mean over the tables of a paper, and on each board."""
    body = [
        [
            f"{method}, over {BASE}",
            percent(in_papers(*where)),
            *(percent(here(board, method)) for board in BOARDS),
        ]
        for method, where in METHODS.items()
    ]
    return runner.markdown(["%", "in the paper", *BOARDS], body)


def in_papers(table_name, method, base):
    """The mean over the datasets of the tables whose name begins so."""
    scores = {}
    for row in csv.DictReader(PUBLISHED.read_text().splitlines()):
        if row["table"].startswith(table_name):
            scores[row["method"], row["dataset"]] = float(row["published"].split()[0].removeprefix("1:"))
    datasets = [dataset for name, dataset in scores if name == method and (base, dataset) in scores]
    return statistics.mean(scores[method, dataset] / scores[base, dataset] - 1 for dataset in datasets)


def here(board, method):
    """The improvement of the mean over seeds, or None where the board lacks a method."""
    tested = runner.where([row for name in LEADERBOARD for row in rows_of(name)], **BOARDS[board], part="test")
    found = [[row["recall@1"] for row in runner.where(tested, loss=loss)] for loss in (method, BASE)]
    return statistics.mean(found[0]) / statistics.mean(found[1]) - 1 if all(found) else None


def percent(share):
    """A share with its sign; empty for None."""
    return "" if share is None else f"{100 * share:+.0f}"
