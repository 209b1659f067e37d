"""Figures 6 and 8 of "Sampling matters": fast convergence, and a threshold that does not depend on the batches.

Left: accuracy on pairs of validation classes during training, by loss. Right: the distance that decides them best, for
margin and triplet loss with several numbers of images per class in a batch.
"""

from dataclasses import replace

from studies import figures, runner
from studies.verification import setting

LOSSES = {
    "margin": "margin, distance weighted",
    "triplet": "triplet, semi-hard",
    "contrastive": "contrastive, random",
}
PER_CLASS = (2, 5, 10)


def rows(options):
    """One row per run and point of its training."""
    runs = [replace(options.base, loss=loss) for loss in LOSSES]
    runs += [
        replace(options.base, loss=loss, per_class=m) for loss in ("margin", "triplet") for m in PER_CLASS if m != 5
    ]
    results = setting.over_seeds(runs, options)
    about = ("core_seconds", "protocol", "hardware", "versions")
    return [
        {**result["run"], "step": (point + 1) * result["run"]["steps"] // len(result["curve"]), **numbers}
        | {key: result[key] for key in about}
        for result in results
        for point, numbers in enumerate(result["curve"])
    ]


def tables(rows):
    """Accuracy after a third of the training and at its end, and the threshold at the end."""
    steps = sorted({row["step"] for row in rows})
    body = []
    for loss, per_class in dict.fromkeys((row["loss"], row["per_class"]) for row in rows):
        same = runner.where(rows, loss=loss, per_class=per_class)
        early, last = runner.where(same, step=steps[len(steps) // 3]), runner.where(same, step=steps[-1])
        thresholds = [runner.mean_of(last, "threshold") / 100, runner.deviation_of(last, "threshold") / 100]
        cells = [runner.share(early, "accuracy"), runner.share(last, "accuracy")]
        body.append([LOSSES[loss], int(per_class), *cells, "{:.3f} ± {:.3f}".format(*thresholds)])
    head = [
        "loss",
        "images per class",
        f"after {steps[len(steps) // 3]:.0f} steps",
        f"after {steps[-1]:.0f}",
        "threshold",
    ]
    return {"curves": runner.markdown(head, body)}


def draw(path, rows):
    """Both figures side by side."""

    def panels(left, right):
        groups = {name: runner.where(rows, loss=loss, per_class=5) for loss, name in LOSSES.items()}
        figures.curves(left, groups, x="step", key="accuracy")
        left.set(xlabel="training step", ylabel="accuracy of validation classes, %")
        by_batch = {
            f"{loss}, {m} per class": [
                {**row, "percent": row["threshold"] / 100} for row in runner.where(rows, loss=loss, per_class=m)
            ]
            for loss in ("margin", "triplet")
            for m in PER_CLASS
        }
        figures.curves(right, by_batch, x="step", key="percent")
        right.set(xlabel="training step", ylabel="best threshold, distance")

    figures.save(path, panels, columns=2)
