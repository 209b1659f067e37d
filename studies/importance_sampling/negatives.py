"""Figure 4: how many negatives should a positive pair meet?

Balanced contrastive loss with weights for lambda from 1 to 8192; and the contrastive loss with weights, whose induced
lambda (eq. 17) is the number of classes less one, so it is set by training on so many classes, drawn anew every 100
steps. (4, 16)-group batches; every point has its own learning rate, chosen on the validation classes.

    python -m recipes.importance_sampling.negatives            # half an hour on two cores; a restart goes on
    python -m recipes.importance_sampling.negatives --quick    # a taste of it
"""

from dataclasses import replace

import tfdml
from recipes import figures, studies
from recipes.importance_sampling import study
from recipes.studies import where

LABELS = (33, 65, 129, 257, 513, 676)


def rows(options):
    """A row for every run, with its lambda, given or induced."""
    balanced = [replace(options.base, negatives=negatives) for negatives in options.negatives]
    labels = (17, 33) if options.quick else LABELS
    contrastive = [replace(options.base, loss="contrastive", labels=number) for number in labels]
    runs = studies.over_seeds(studies.tuned(balanced + contrastive, options), options)
    found = studies.rows_of(studies.finished(runs, options))
    return [{**row, "lambda": _induced(row) if row["labels"] else row["negatives"]} for row in found]


def _induced(row):
    return float(tfdml.importance.induced_lambda(row["per_class"], row["per_class"], classes=row["labels"]))


def draw(path, rows):
    """Recall@1 over lambda."""
    groups = {
        "balanced contrastive": where(rows, loss="balanced"),
        "contrastive, induced lambda": where(rows, loss="contrastive"),
    }

    def axes(axis):
        figures.curves(axis, groups, x="lambda")
        axis.set_xscale("log", base=2)
        axis.set(xlabel="lambda, negatives per positive pair", ylabel="Recall@1, %")

    figures.save(path, axes, columns=1)


def main():
    """Train what is missing, write the rows and draw."""
    options = study.options(__doc__.splitlines()[0])
    found = rows(options)
    studies.write_rows(options.output / "negatives.csv", found)
    draw(options.output / "negatives.png", found)


if __name__ == "__main__":
    main()
