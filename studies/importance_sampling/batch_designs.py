"""Table 1: does training quality stop depending on the batch design when pairs have importance weights?

Balanced contrastive loss with (m, n)-group and p-random batches, with and without weights: with lambda = 256, as in the
paper, and the group batches with the lambda that the validation classes prefer, too. Every method has its own learning
rate, chosen on the validation classes.

    python -m recipes.importance_sampling.batch_designs            # under an hour on two cores; a restart goes on
    python -m recipes.importance_sampling.batch_designs --quick    # a taste of it
"""

from dataclasses import replace

from recipes import studies
from recipes.importance_sampling import study
from recipes.studies import mean_of, where

GROUPS = ("2x32", "4x16", "8x8", "16x4", "32x2")
PAIRS = ("0.9-random", "0.5-random", "0.1-random")
KEYS = ("recall@1", "recall@2", "recall@8", "map@r")


def rows(options):
    """A row for every run: each design, without and with weights; the group designs for both lambdas.

    The column `chosen` is 1 for the runs of the table, and 0 for those of one seed with the other learning rates.
    """
    best = study.with_best_negatives(options).negatives
    groups, pairs = (("4x8",), ("0.5-random",)) if options.quick else (GROUPS, PAIRS)
    cells = dict.fromkeys((options.base.negatives, design) for design in groups + pairs)
    cells |= dict.fromkeys((best, design) for design in groups)
    methods = [
        replace(options.base, design=design, delta=delta, negatives=negatives)
        for negatives, design in cells
        for delta in (0.0, 1.0)
    ]
    chosen = studies.over_seeds(studies.tuned(methods, options), options)
    others = [replace(run, learning_rate=rate, seed=options.seeds[0]) for run in methods for rate in options.rates]
    others = [run for run in others if run not in chosen]
    found = studies.rows_of(studies.finished(chosen + others, options))
    return [{"chosen": int(place < len(chosen)), **row} for place, row in enumerate(found)]


def markdown(rows):
    """The table: a row for each method, then the spread over designs."""
    lines = [
        "| lambda | batches | weights | learning rate | " + " | ".join(("Recall@1", "@2", "@8", "MAP@R")) + " |",
        "| ---: | --- | --- | ---: |" + " ---: |" * len(KEYS),
    ]
    rows = where(rows, chosen=1)
    methods = dict.fromkeys((row["negatives"], row["design"], row["delta"], row["learning_rate"]) for row in rows)
    for negatives, design, delta, rate in methods:
        runs = where(rows, negatives=negatives, design=design, delta=delta)
        cells = [f"{mean_of(runs, key):.1f} ± {studies.deviation_of(runs, key):.1f}" for key in KEYS]
        lines.append(f"| {negatives:g} | {title(design)} | {yes(delta)} | {rate:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spreads(rows):
    """For each lambda and kind of batches: best, worst and spread of Recall@1, without and with weights."""
    lines = ["| lambda | batches | weights | best | worst | spread |", "| ---: | --- | --- | ---: | ---: | ---: |"]
    for negatives in dict.fromkeys(row["negatives"] for row in rows):
        for kind, is_kind in (("group", False), ("p-random", True)):
            for delta in (0.0, 1.0):
                runs = where(rows, chosen=1, negatives=negatives, delta=delta)
                runs = [row for row in runs if ("-" in row["design"]) is is_kind]
                if not runs:
                    continue
                designs = dict.fromkeys(row["design"] for row in runs)
                levels = [mean_of(where(runs, design=design)) for design in designs]
                numbers = f"{max(levels):.1f} | {min(levels):.1f} | {max(levels) - min(levels):.1f}"
                lines.append(f"| {negatives:g} | {kind} | {yes(delta)} | {numbers} |")
    return "\n".join(lines)


def at_one_rate(rows):
    """The spread of Recall@1 over group designs when all of them share a learning rate, for the first seed."""
    lines = ["| lambda | learning rate | spread without weights | with weights |", "| ---: | ---: | ---: | ---: |"]
    groups = [row for row in where(rows, seed=0) if "-" not in row["design"]]
    for negatives, rate in sorted({(row["negatives"], row["learning_rate"]) for row in groups}):
        shared = where(groups, negatives=negatives, learning_rate=rate)
        levels = [[100 * row["recall@1"] for row in where(shared, delta=delta)] for delta in (0.0, 1.0)]
        without, weighed = (max(level) - min(level) for level in levels)
        lines.append(f"| {negatives:g} | {rate:g} | {without:.1f} | {weighed:.1f} |")
    return "\n".join(lines)


def title(design):
    """The paper's name of a batch design."""
    return design if "-" in design else "({})-group".format(design.replace("x", ", "))


def yes(delta):
    """Whether there are weights, for people."""
    return "yes" if delta else "no"


def main():
    """Train what is missing, write the rows and print the tables."""
    options = study.options(__doc__.splitlines()[0])
    found = rows(options)
    studies.write_rows(options.output / "batch_designs.csv", found)
    print(markdown(found), spreads(found), at_one_rate(found), sep="\n\n")


if __name__ == "__main__":
    main()
