"""Figure 3: do importance weights help when classes differ in size?

Balanced contrastive loss with (4, 16)-group batches, with and without weights, where each class has lost a share of its
examples that is uniform in [0, gamma]. Lambda is the one that the validation classes prefer, and the learning rates are
those of gamma = 0. Beside it, all images of each class, 32 to 224 of them, with their own learning rates.
"""

from dataclasses import replace

from studies import figures, runner
from studies.importance_sampling import setting
from studies.runner import where

GAMMAS = tuple(tenth / 10 for tenth in range(11))


def rows(options):
    """One row per run."""
    best = setting.with_best_lambda(options)
    alike, uneven = (
        runner.tuned([replace(best, delta=delta, per_class=number) for delta in (0.0, 1.0)], options)
        for number in (setting.PER_CLASS, None)
    )
    gammas = GAMMAS[::5] if options.quick else GAMMAS
    return runner.repeated(uneven + [replace(run, removed=gamma) for run in alike for gamma in gammas], options)


def draw(path, rows):
    """Recall@1 over gamma."""
    rows = where(rows, per_class=setting.PER_CLASS)
    groups = {"with weights": where(rows, delta=1.0), "without": where(rows, delta=0.0)}

    def panel(axis):
        figures.curves(axis, groups, x="removed")
        axis.set(xlabel="gamma, largest share of a class that is removed", ylabel="Recall@1, %")

    figures.save(path, panel, columns=1)
