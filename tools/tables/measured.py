"""Times and retrieval of losses, from the results of benchmarks and studies."""

import csv
import sys

import numpy as np

from studies import pages, runner
from studies.leaderboard.methods import FAMILIES, METHODS
from studies.leaderboard.starts import SETS
from tfdml import losses

TIMED = {"batch": "1024", "dim": "128"}
RECALL = {data: f"Recall@1, {data}" for data in SETS}
START = "trained"
TIMES = ("ms", "graph / limit", "XLA / limit")


def timed_classes():
    """The first benchmark of each class of losses: class to name."""
    sys.path.append(str(pages.ROOT / "benchmarks"))
    from _peers import ours

    return {type(loss): name for name, loss in reversed(ours().items())}


def timed_rows():
    """Rows of the benchmark of losses by name, of one size."""
    with open(pages.RESULTS / "losses.csv") as file:
        return {row["loss"]: row for row in csv.DictReader(file) if TIMED.items() <= row.items()}


def times():
    """Cells of time by class of losses: milliseconds in graph mode, and the ratios to the three products."""
    rows = timed_rows()
    return {
        loss_class: {
            "ms": f"{float(rows[name]['graph_ms']):.1f}",
            "graph / limit": f"{float(rows[name]['graph_over_three_products']):.1f}",
            "XLA / limit": f"{float(rows[name]['xla_over_three_products']):.1f}",
        }
        for loss_class, name in timed_classes().items()
    }


def class_and_note(method):
    """The class of a loss that is compared, and what it is added to if it is the last term of a sum."""
    settings = {name: values[0] for name, values in method.settings.items()}
    loss = method.make(np.repeat(np.arange(40), 4), **settings)
    if not isinstance(loss, losses.WeightedSumLoss):
        return type(loss), ""
    first, last = loss.settings["losses"]
    return type(last), f" (with `{type(first).__name__}`)"


def compared_rows():
    """Rows of the tests of `studies/leaderboard` from a trained start."""
    for family in FAMILIES:
        yield from runner.where(
            runner.read_rows(pages.RESULTS / "leaderboard" / f"{family}.csv"), part="test", start=START
        )


def retrieval():
    """Cells of Recall@1 by class of losses: mean and half of the 95% interval over seeds, for each set."""
    cells, rows = {}, list(compared_rows())
    for name, method in METHODS.items():
        loss_class, note = class_and_note(method)
        if loss_class not in cells and START in method.starts():  # the first of a class is the plainest
            cells[loss_class] = {
                column: pages.plus_minus([row["recall@1"] for row in runner.where(rows, loss=name, data=data)]) + note
                for data, column in RECALL.items()
            }
    return cells


def measured_cells():
    """Cells of times and of retrieval by class of losses."""
    measured, compared = times(), retrieval()
    return {loss: {**measured.get(loss, {}), **compared.get(loss, {})} for loss in measured.keys() | compared.keys()}


def sources():
    """Commands, protocols, machines and versions of the numbers."""
    timed, compared = list(timed_rows().values()), list(compared_rows())
    seeds, protocols = ({row[key] for row in compared} for key in ("seed", "protocol"))
    return (
        f"Times: `python benchmarks/losses.py`, {TIMED['batch']} x {TIMED['dim']}, {pages.machines(timed)}.\n\n"
        f"Recall@1: `python -m studies leaderboard`, {START} start, {len(seeds)} seeds, protocols "
        f"{', '.join(f'`{protocol}`' for protocol in sorted(protocols))}; {pages.machines(compared)}."
    )
