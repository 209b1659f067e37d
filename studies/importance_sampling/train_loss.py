"""Figure 2: is the training loss minimized faster and further with importance weights?

Contrastive loss with (4, 16)-group batches of 100 classes, as in the paper, with and without weights. Every 100 steps
the loss (10) over all ordered pairs of the training set is computed exactly, and Recall@1 of the test classes.
"""

from dataclasses import asdict, dataclass, replace

from studies import figures, runner
from studies.importance_sampling import setting
from studies.runner import where


@dataclass(frozen=True)
class Run(setting.Run):
    """A run with the number of its training classes, which are the first ones."""

    training_classes: int = 100


def rows(options):
    """One row per 100 steps of each run."""
    base = Run(**asdict(replace(options.base, loss="contrastive")))
    methods = runner.tuned([replace(base, delta=delta) for delta in (0.0, 1.0)], options)
    runs = [replace(run, watch=True) for run in methods]
    results = runner.finished(runner.over_seeds(runs, options), options)
    return [
        {**row, **watched}
        for row, result in zip(runner.rows_of(results), results, strict=True)
        for watched in result["watched"]
    ]


def draw(path, rows):
    """The full loss and Recall@1 over steps."""
    groups = {"with weights": where(rows, delta=1.0), "without": where(rows, delta=0.0)}

    def panels(left, right):
        thousandths = {
            label: [{**row, "full_loss": 10 * row["full_loss"]} for row in rows]  # drawn in percent, so 100 times this
            for label, rows in groups.items()
        }
        figures.curves(left, thousandths, x="step", key="full_loss", marker=None)
        left.set(xlabel="step", ylabel="loss over all training pairs, x 1000", ylim=(0, None))
        figures.curves(right, groups, x="step", marker=None)
        right.set(xlabel="step", ylabel="Recall@1, %")

    figures.save(path, panels, columns=2)
