"""Figure 1: is the exact importance weight the best one?

Balanced contrastive loss with weights to the power delta, for (4, 16)-group and (32, 2)-group batches: with lambda =
256, as in the paper, and with the lambda that the validation classes prefer. The learning rate is that of delta = 1.
"""

from dataclasses import replace

from studies import figures, runner
from studies.importance_sampling import setting
from studies.importance_sampling.batch_designs import title
from studies.runner import where

DELTAS = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


def rows(options):
    """One row per run."""
    lambdas = dict.fromkeys((options.base.negatives, setting.with_best_lambda(options).negatives))
    designs = ("4x8",) if options.quick else ("4x16", "32x2")
    exact = runner.tuned(
        [replace(options.base, design=design, negatives=negatives) for negatives in lambdas for design in designs],
        options,
    )
    runs = [replace(run, delta=delta) for run in exact for delta in (DELTAS[::3] if options.quick else DELTAS)]
    return runner.repeated(runs, options)


def draw(path, rows):
    """Recall@1 over delta, one panel per lambda."""
    lambdas, designs = (dict.fromkeys(row[key] for row in rows) for key in ("negatives", "design"))

    def panels(*axes):
        for axis, negatives in zip(axes, lambdas, strict=True):
            groups = {title(design): where(rows, negatives=negatives, design=design) for design in designs}
            figures.curves(axis, groups, x="delta")
            axis.axvline(1.0, color="0.7", linestyle=":")
            axis.set(title=f"lambda = {negatives:g}", xlabel="delta, exponent of the weights", ylabel="Recall@1, %")

    figures.save(path, panels, columns=len(lambdas))
