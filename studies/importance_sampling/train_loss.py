"""Figure 2: is the training loss minimized faster and further with importance weights?

Contrastive loss with (4, 16)-group batches, with and without weights. Every 100 steps the loss (10) over all ordered
pairs of the training set is computed exactly, and Recall@1 of the test classes.

    python -m recipes.importance_sampling.train_loss            # half an hour on two cores; a restart goes on
    python -m recipes.importance_sampling.train_loss --quick    # a taste of it
"""

from dataclasses import replace

from recipes import figures, studies
from recipes.importance_sampling import study
from recipes.studies import where


def rows(options):
    """A row for every 100 steps of every run."""
    methods = studies.tuned([replace(options.base, loss="contrastive", delta=delta) for delta in (0.0, 1.0)], options)
    runs = [replace(run, watch=True) for run in methods]
    results = studies.finished(studies.over_seeds(runs, options), options)
    about = [studies.rows_of([result])[0] for result in results]
    return [{**row, **watched} for row, result in zip(about, results, strict=True) for watched in result["watched"]]


def draw(path, rows):
    """The full loss and Recall@1 over steps."""
    groups = {"with weights": where(rows, delta=1.0), "without": where(rows, delta=0.0)}

    def axes(left, right):
        scaled = {
            label: [{**row, "thousandths": 10 * row["full_loss"]} for row in rows] for label, rows in groups.items()
        }
        figures.curves(left, scaled, x="step", key="thousandths", marker=None)
        left.set(xlabel="step", ylabel="loss over all training pairs, x 1000", ylim=(0, None))
        figures.curves(right, groups, x="step", marker=None)
        right.set(xlabel="step", ylabel="Recall@1, %")

    figures.save(path, axes, columns=2)


def main():
    """Train what is missing, write the rows and draw."""
    options = study.options(__doc__.splitlines()[0])
    found = rows(options)
    studies.write_rows(options.output / "train_loss.csv", found)
    draw(options.output / "train_loss.png", found)


if __name__ == "__main__":
    main()
