"""Figure 1: is the exact importance weight the best one?

Balanced contrastive loss with weights to the power delta, for (4, 16)-group and (32, 2)-group batches: with lambda =
256, as in the paper, and with the lambda that the validation classes prefer. The learning rate is that of delta = 1.

    python -m recipes.importance_sampling.exponent            # a quarter of an hour on two cores; a restart goes on
    python -m recipes.importance_sampling.exponent --quick    # a taste of it
"""

from dataclasses import replace

from recipes import figures, studies
from recipes.importance_sampling import study
from recipes.studies import where

DELTAS = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


def rows(options):
    """A row for every run."""
    lambdas = dict.fromkeys((options.base.negatives, study.with_best_negatives(options).negatives))
    designs = ("4x8",) if options.quick else ("4x16", "32x2")
    exact = studies.tuned(
        [replace(options.base, design=design, negatives=negatives) for negatives in lambdas for design in designs],
        options,
    )
    runs = [replace(run, delta=delta) for run in exact for delta in (DELTAS[::3] if options.quick else DELTAS)]
    return studies.rows_of(studies.finished(studies.over_seeds(runs, options), options))


def draw(path, rows):
    """Recall@1 over delta, a panel for each lambda."""
    lambdas = dict.fromkeys(row["negatives"] for row in rows)

    def axes(*panels):
        for axis, negatives in zip(panels, lambdas, strict=True):
            designs = dict.fromkeys(row["design"] for row in rows)
            groups = {
                "({})-group".format(design.replace("x", ", ")): where(rows, negatives=negatives, design=design)
                for design in designs
            }
            figures.curves(axis, groups, x="delta")
            axis.axvline(1.0, color="0.7", linestyle=":")
            axis.set(title=f"lambda = {negatives:g}", xlabel="delta, exponent of the weights", ylabel="Recall@1, %")

    figures.save(path, axes, columns=len(lambdas))


def main():
    """Train what is missing, write the rows and draw."""
    options = study.options(__doc__.splitlines()[0])
    found = rows(options)
    studies.write_rows(options.output / "exponent.csv", found)
    draw(options.output / "exponent.png", found)


if __name__ == "__main__":
    main()
