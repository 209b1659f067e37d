"""All losses side by side: the figure and the verdict."""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from scipy import stats

from studies import runner
from studies.figures import COLORS
from studies.references import setting
from studies.references.family import Family
from studies.references.methods import FAMILIES

ABOUT = ("protocol", "hardware", "versions")
BASELINES = ("contrastive", "triplet", "semi-hard triplet", "margin", "multi-similarity")


def rows(options):
    """One row per set and loss: MAP@R, and its difference from the highest of the set, with halves of 95% intervals.

    Differences are paired by seeds, which stand for the same batches and the same initial weights.
    """
    tested = {name: runner.where(Family(name, losses).rows(options), part="test") for name, losses in FAMILIES.items()}
    return [row for data in setting.SETS for row in compared(data, tested)]


def compared(data, tested):
    """The rows of one set, of dicts of family to the rows of its test."""
    runs = {
        (family, loss): runner.where(rows, data=data, loss=loss)
        for family, rows in tested.items()
        for loss in dict.fromkeys(row["loss"] for row in rows)
    }
    scores = {key: [row["map@r"] for row in runs[key]] for key in runs}
    highest = max(scores.values(), key=sum)
    for (family, loss), values in scores.items():
        mean, half = _rounded_interval(values)
        behind, half_behind = _rounded_interval([best - value for best, value in zip(highest, values, strict=True)])
        yield {
            "data": data,
            "family": family,
            "loss": loss,
            "seeds": len(values),
            "map@r": mean,
            "map@r half": half,
            "behind": behind,
            "behind half": half_behind,
            **{key: runs[family, loss][0][key] for key in ABOUT},
        }


def _rounded_interval(values):
    """Mean and half of the 95% interval, to six decimals, which are the same on every processor."""
    return tuple(round(value, 6) for value in setting.interval(values))


FIGURE = "![MAP@R of each loss on both sets, with 95% intervals](images/references-summary.png)"


def tables(rows):
    """The figure, and the verdict as a Markdown list."""
    lines = [f"* {line}" for line in [*map(_verdict, _by_set(rows).items()), *_across(rows)]]
    return {"verdict": "\n".join([FIGURE, "", *lines])}


def _by_set(rows):
    """The rows of each set, the highest MAP@R first."""
    ordered = sorted(rows, key=lambda row: -row["map@r"])
    return {data: runner.where(ordered, data=data) for data in setting.SETS}


def _verdict(entry):
    """The first of a set, the losses that cannot be told from it, and the places of the baselines."""
    data, rows = entry
    first, *others = rows
    level = [row["loss"] for row in others if row["behind"] <= row["behind half"]]
    places = [f"{row['loss']} {place}" for place, row in enumerate(rows, start=1) if row["loss"] in BASELINES]
    return (
        f"**{data.capitalize()}.** {first['loss']} is first of {len(rows)} losses with a MAP@R of {_share(first)}; the "
        f"last one has {_share(rows[-1])}. The interval of the difference from the first includes 0 for "
        f"{', '.join(level) or 'no other loss'}. Places of the baselines: {', '.join(places)}."
    )


def _share(row):
    return f"{100 * row['map@r']:.1f} ± {100 * row['map@r half']:.1f}"


def _across(rows):
    """How far the order of the losses is the same on both sets."""
    one, other = ([row["map@r"] for row in runner.where(rows, data=data)] for data in setting.SETS)
    correlation = stats.spearmanr(one, other)[0]
    yield f"**Both.** Spearman's rank correlation between the MAP@R of the two sets is {correlation:.2f}."


def draw(path, rows):
    """MAP@R with 95% intervals: a panel per set, a line per loss, in the order of the mean over both sets."""
    losses = dict.fromkeys(row["loss"] for row in rows)
    order = sorted(losses, key=lambda loss: sum(row["map@r"] for row in runner.where(rows, loss=loss)))
    figure, panels = plt.subplots(1, len(setting.SETS), figsize=(10, 1 + 0.24 * len(order)), sharey=True)
    for axis, data in zip(panels, setting.SETS, strict=True):
        for color, family in zip(COLORS, FAMILIES, strict=False):
            _errorbars(axis, runner.where(rows, data=data, family=family), order, color=color, label=family)
        axis.set(title=data, xlabel="MAP@R of the test classes, %")
        axis.grid(axis="both", color="0.92")
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(order)), order)
    panels[1].legend(title="family", frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _errorbars(axis, rows, order, **options):
    """A point and an interval for each row, at the height of its loss."""
    means, halves = ([100 * row[key] for row in rows] for key in ("map@r", "map@r half"))
    places = [order.index(row["loss"]) for row in rows]
    axis.errorbar(means, places, xerr=halves, fmt="o", markersize=4, capsize=2, **options)
