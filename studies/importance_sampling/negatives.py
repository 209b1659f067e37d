"""Figure 4: how many negatives should a positive pair meet?

Balanced contrastive loss with weights for lambda from 1 to 8192; and the contrastive loss with weights, whose induced
lambda (eq. 17) is the number of classes minus 1, so it is set by the number of classes to train on, which are drawn
again every 100 steps. (4, 16)-group batches; each point has its own learning rate, chosen on the validation classes.
"""

from dataclasses import replace

import tfdml
from studies import figures, runner
from studies.importance_sampling import setting
from studies.runner import where

LABELS = (33, 65, 129, 257, 513, 676)


def rows(options):
    """One row per run, with its lambda, given or induced."""
    labels = (17, 33) if options.quick else LABELS
    contrastive = [replace(options.base, loss="contrastive", labels=number) for number in labels]
    found = runner.results(setting.with_each_lambda(options) + contrastive, options)
    return [{**row, "lambda": _induced(row) if row["labels"] else row["negatives"]} for row in found]


def _induced(row):
    return float(tfdml.importance.induced_lambda(row["per_class"], row["per_class"], classes=row["labels"]))


def draw(path, rows):
    """Recall@1 over lambda."""
    groups = {
        "balanced contrastive": where(rows, loss="balanced"),
        "contrastive, induced lambda": where(rows, loss="contrastive"),
    }

    def panel(axis):
        figures.curves(axis, groups, x="lambda")
        axis.set_xscale("log", base=2)
        axis.set(xlabel="lambda, negatives per positive pair", ylabel="Recall@1, %")

    figures.save(path, panel, columns=1)
