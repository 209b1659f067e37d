"""Figure 3: do importance weights help when classes differ in size?

Balanced contrastive loss with (4, 16)-group batches, with and without weights, where each class has lost a share of its
examples that is uniform in [0, gamma]. Lambda is the one that the validation classes prefer, and the learning rates are
those of gamma = 0. Beside it, all images of every class, 32 to 224 of them, with learning rates of their own.

    python -m recipes.importance_sampling.class_sizes            # a quarter of an hour on two cores; a restart goes on
    python -m recipes.importance_sampling.class_sizes --quick    # a taste of it
"""

from dataclasses import replace

from recipes import figures, studies
from recipes.importance_sampling import study
from recipes.studies import where

GAMMAS = tuple(tenth / 10 for tenth in range(11))


def rows(options):
    """A row for every run."""
    best = study.with_best_negatives(options)
    methods = studies.tuned([replace(best, delta=delta) for delta in (0.0, 1.0)], options)
    as_drawn = studies.tuned([replace(best, delta=delta, per_class=None) for delta in (0.0, 1.0)], options)
    runs = as_drawn + [
        replace(run, removed=gamma) for run in methods for gamma in (GAMMAS[::5] if options.quick else GAMMAS)
    ]
    return studies.rows_of(studies.finished(studies.over_seeds(runs, options), options))


def draw(path, rows):
    """Recall@1 over gamma."""
    rows = where(rows, per_class=study.PER_CLASS)
    groups = {"with weights": where(rows, delta=1.0), "without": where(rows, delta=0.0)}

    def axes(axis):
        figures.curves(axis, groups, x="removed")
        axis.set(xlabel="gamma, largest share of a class that is removed", ylabel="Recall@1, %")

    figures.save(path, axes, columns=1)


def markdown(rows):
    """Recall@1 with as many examples of each class, and with all of them."""
    lines = ["| images of a class | without weights | with weights |", "| --- | ---: | ---: |"]
    alike = [row for row in rows if row["per_class"] == study.PER_CLASS and not row["removed"]]
    others = [row for row in rows if row["per_class"] != study.PER_CLASS]
    for title, found in (("32 of each", alike), ("all, 32 to 224", others)):
        cells = [where(found, delta=delta) for delta in (0.0, 1.0)]
        cells = [f"{studies.mean_of(runs):.1f} ± {studies.deviation_of(runs):.1f}" for runs in cells]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    """Train what is missing, write the rows and draw."""
    options = study.options(__doc__.splitlines()[0])
    found = rows(options)
    studies.write_rows(options.output / "class_sizes.csv", found)
    draw(options.output / "class_sizes.png", found)
    print(markdown(found))


if __name__ == "__main__":
    main()
