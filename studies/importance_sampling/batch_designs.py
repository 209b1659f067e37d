"""Table 1: does training quality stop depending on the batch design when pairs have importance weights?

Balanced contrastive loss with (m, n)-group and p-random batches, with and without weights: with lambda = 256, as in the
paper, and the group batches also with the lambda that the validation classes prefer. Each method has its own learning
rate, chosen on the validation classes.
"""

from dataclasses import replace

from studies import pages, runner
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
    return {"designs": table(where(rows, chosen=1), with_spread=False)}


def table(rows, *, with_spread=True):
    """Recall@1 of the designs and its spread over them, a line per lambda, without and with weights."""
    names, lambdas = (list(dict.fromkeys(row[key] for row in rows)) for key in ("design", "negatives"))
    body = []
    for found in (where(rows, negatives=negatives, delta=delta) for negatives in lambdas for delta in (0.0, 1.0)):
        body.append([f"{found[0]['negatives']:g}", "yes" if found[0]["delta"] else "no"])
        body[-1] += [share(where(found, design=design)) for design in names]
        if with_spread:
            body[-1].append(pages.plus_minus(spreads(found)))
    return runner.markdown(["lambda", "weights", *map(title, names), *["spread"] * with_spread], body, texts=(1,))


def spreads(rows):
    """The difference of the best and the worst design, for each seed."""
    levels = [
        [row["recall@1"] for row in where(rows, seed=seed)] for seed in dict.fromkeys(row["seed"] for row in rows)
    ]
    return [max(level) - min(level) for level in levels]


def title(design):
    """The paper's name of a batch design."""
    return design if "-" in design else "({})-group".format(design.replace("x", ", "))
