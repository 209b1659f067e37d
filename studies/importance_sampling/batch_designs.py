"""Table 1: does training quality stop depending on the batch design when pairs have importance weights?

Balanced contrastive loss with (m, n)-group and p-random batches, with and without weights: with lambda = 256, as in the
paper, and the group batches also with the lambda that the validation classes prefer. Each method has its own learning
rate, chosen on the validation classes.
"""

from dataclasses import replace

from studies import runner
from studies.importance_sampling import setting
from studies.runner import share, where

GROUPS = ("2x32", "4x16", "8x8", "16x4", "32x2")
PAIRS = ("0.9-random", "0.5-random", "0.1-random")


def rows(options):
    """One row per run: each design, without and with weights; the group designs for both lambdas.

    The column `chosen` is 1 for the runs of the table, and 0 for those of one seed with the other learning rates.
    """
    best = setting.with_best_lambda(options).negatives
    groups, pairs = (("4x8",), ("0.5-random",)) if options.quick else (GROUPS, PAIRS)
    cells = dict.fromkeys((options.base.negatives, design) for design in groups + pairs)
    cells |= dict.fromkeys((best, design) for design in groups)
    methods = [
        replace(options.base, design=design, delta=delta, negatives=negatives)
        for negatives, design in cells
        for delta in (0.0, 1.0)
    ]
    chosen = runner.over_seeds(runner.tuned(methods, options), options)
    others = [replace(run, learning_rate=rate, seed=options.seeds[0]) for run in methods for rate in options.rates]
    others = [run for run in others if run not in chosen]
    found = runner.rows_of(runner.finished(chosen + others, options))
    return [{"chosen": int(place < len(chosen)), **row} for place, row in enumerate(found)]


def tables(rows):
    """Recall@1 of each design."""
    return {"designs": designs(rows)}


def designs(rows):
    """Recall@1 of the designs, a line per lambda, without and with weights."""
    rows = where(rows, chosen=1)
    names = list(dict.fromkeys(row["design"] for row in rows))
    body = [
        [f"{negatives:g}", yes(delta), *(_cell(rows, negatives, delta, design) for design in names)]
        for negatives in dict.fromkeys(row["negatives"] for row in rows)
        for delta in (0.0, 1.0)
    ]
    return runner.markdown(["lambda", "weights", *map(title, names)], body, texts=(1,))


def _cell(rows, negatives, delta, design):
    found = where(rows, negatives=negatives, delta=delta, design=design)
    return share(found, "recall@1") if found else ""


def title(design):
    """The paper's name of a batch design."""
    return design if "-" in design else "({})-group".format(design.replace("x", ", "))


def yes(delta):
    """Whether there are weights, as a word."""
    return "yes" if delta else "no"
