"""Table 1: does training quality stop depending on the batch design when pairs have importance weights?

Balanced contrastive loss with (m, n)-group and p-random batches, with and without weights: with lambda = 256, as in the
paper, and the group batches also with the lambda that the validation classes prefer. Each method has its own learning
rate, chosen on the validation classes.
"""

from dataclasses import replace

from studies import runner
from studies.importance_sampling import setting
from studies.runner import mean_of, share, where

GROUPS = ("2x32", "4x16", "8x8", "16x4", "32x2")
PAIRS = ("0.9-random", "0.5-random", "0.1-random")
KEYS = ("recall@1", "recall@2", "recall@8", "map@r")


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
    """The three tables of the page."""
    return {"designs": designs(rows), "spreads": spreads(rows), "spreads at one rate": spreads_at_one_rate(rows)}


def designs(rows):
    """One line per method."""
    rows = where(rows, chosen=1)
    methods = dict.fromkeys((row["negatives"], row["design"], row["delta"], row["learning_rate"]) for row in rows)
    body = []
    for negatives, design, delta, rate in methods:
        runs = where(rows, negatives=negatives, design=design, delta=delta)
        body.append([f"{negatives:g}", title(design), yes(delta), f"{rate:g}", *(share(runs, key) for key in KEYS)])
    head = ["lambda", "batches", "weights", "learning rate", "Recall@1", "@2", "@8", "MAP@R"]
    return runner.markdown(head, body, texts=(1, 2))


def spreads(rows):
    """Best, worst and spread of Recall@1 for each lambda and kind of batches, without and with weights."""
    methods = dict.fromkeys((row["negatives"], kind(row), row["delta"]) for row in where(rows, chosen=1))
    body = []
    for negatives, batches, delta in methods:
        runs = where(rows, chosen=1, negatives=negatives, delta=delta)
        runs = [row for row in runs if kind(row) == batches]
        levels = [mean_of(where(runs, design=design)) for design in dict.fromkeys(row["design"] for row in runs)]
        numbers = (max(levels), min(levels), max(levels) - min(levels))
        body.append([f"{negatives:g}", batches, yes(delta), *(f"{number:.1f}" for number in numbers)])
    head = ["lambda", "batches", "weights", "best", "worst", "spread"]
    return runner.markdown(head, body, texts=(1, 2))


def spreads_at_one_rate(rows):
    """The spread of Recall@1 over group designs that share a learning rate, for the first seed."""
    groups = [row for row in where(rows, seed=0) if kind(row) == "group"]
    body = []
    for negatives, rate in sorted({(row["negatives"], row["learning_rate"]) for row in groups}):
        same = where(groups, negatives=negatives, learning_rate=rate)
        levels = [[100 * row["recall@1"] for row in where(same, delta=delta)] for delta in (0.0, 1.0)]
        body.append([f"{negatives:g}", f"{rate:g}", *(f"{max(level) - min(level):.1f}" for level in levels)])
    head = ["lambda", "learning rate", "spread without weights", "with weights"]
    return runner.markdown(head, body, texts=())


def kind(row):
    """ "group" or "p-random"."""
    return "p-random" if "-" in row["design"] else "group"


def title(design):
    """The paper's name of a batch design."""
    return design if "-" in design else "({})-group".format(design.replace("x", ", "))


def yes(delta):
    """Whether there are weights, as a word."""
    return "yes" if delta else "no"
