"""All methods side by side: the table, the figure and the verdict."""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import tfdml
from studies import runner
from studies.figures import COLORS
from studies.leaderboard import setting
from studies.leaderboard.costs import FILE
from studies.leaderboard.family import Family
from studies.leaderboard.methods import FAMILIES

ABOUT = ("protocol", "hardware", "versions")
BASELINES = (
    "contrastive",
    "triplet",
    "semi-hard triplet",
    "margin",
    "multi-similarity",
    "NT-Xent",
    "normalized softmax",
)
COLUMNS = {"model": "loss", "seed": "seed", "score": "map@r"}  # of `compare_scores`, in the rows of runs
LEVEL = 0.05
SHOWN = 20  # methods on the page
FIGURE = "![MAP@R of each method on the four boards, with 95% intervals](images/leaderboard-summary.png)"


def rows(options):
    """One row per board and method: its mean scores, and its difference from the highest of the board.

    Differences are paired by seeds, which stand for the same batches and the same initial weights.
    `tfdml.evaluation.compare_scores` compares each method with the highest MAP@R of the board.
    """
    tested = {name: runner.where(Family(name, losses).rows(options), part="test") for name, losses in FAMILIES.items()}
    return [row for board in setting.BOARDS for row in compared(board, tested)]


def compared(board, tested):
    """The rows of one board, of dicts of family to the rows of its test."""
    data, start = board
    families = {
        row["loss"]: name for name, rows in tested.items() for row in runner.where(rows, data=data, start=start)
    }
    runs = {loss: runner.where(tested[family], data=data, start=start, loss=loss) for loss, family in families.items()}
    all_runs = [row for same in runs.values() for row in same]
    first = max(runs, key=lambda loss: np.mean([row["map@r"] for row in runs[loss]]))
    comparison = tfdml.evaluation.compare_scores(
        {name: [row[key] for row in all_runs] for name, key in COLUMNS.items()}, against=first, shown=0
    )
    pairs = {pair.comparison.names[0]: pair for pair in comparison.pairs}
    for loss, same in runs.items():
        mean, pair = comparison.means[loss]["score"], pairs.get(loss)
        yield {
            "data": data,
            "start": start,
            "family": families[loss],
            "loss": loss,
            "learning_rate": same[0]["learning_rate"],
            "settings": same[0]["settings"],
            "seeds": len(same),
            "recall@1": round(float(np.mean([row["recall@1"] for row in same])), 6),
            "nmi": "" if "" in (found := [row["nmi"] for row in same]) else round(float(np.mean(found)), 6),
            "map@r": round(mean.value, 6),
            "map@r half": _half(mean),
            "behind": 0.0 if pair is None else round(-pair.comparison.difference, 6),
            "behind half": 0.0 if pair is None else _half(pair.comparison),
            "p": 1.0 if pair is None else round(pair.corrected, 6),
            **{key: same[0][key] for key in ABOUT},
        }


def _half(interval):
    """Half of the width of an interval, to six decimals, which are the same on every processor."""
    return round((interval.high - interval.low) / 2, 6)


def tables(rows):
    """The verdict as a Markdown list with the figure, and the first methods of the board, by their mean place."""
    places = _places(rows)
    order = sorted(places, key=lambda loss: (np.mean(list(places[loss].values())), loss))
    lines = [f"* {line}" for line in [*map(_verdict, _by_board(rows).items()), *_across(rows, places)]]
    return {"verdict": "\n".join([FIGURE, "", *lines]), "board": board_table(rows, order[:SHOWN], places)}


def board_table(rows, order, places):
    """MAP@R of each method on each board, its mean place in percent, and what a step costs, as a Markdown table.

    A star marks what cannot be told from the first of its board.
    """
    costs = {row["loss"]: row for row in runner.read_rows(FILE)} if FILE.exists() else {}
    families = {row["loss"]: row["family"] for row in rows}
    cells = {(row["loss"], row["data"], row["start"]): _marked(row) for row in rows}
    body = [
        [
            loss,
            families[loss],
            *(cells.get((loss, *board), "") for board in setting.BOARDS),
            f"{np.mean(list(places[loss].values())):.0f}",
            *(f"{costs[loss][key]:.2f}" if loss in costs else "" for key in ("ms", "mib")),
        ]
        for loss in order
    ]
    head = ["", "family", *(f"{data}, {start}" for data, start in setting.BOARDS), "mean place", "ms", "MiB"]
    return runner.markdown(head, body, texts=(0, 1))


def _marked(row):
    """The MAP@R of a row, with a star if it cannot be told from the first of its board."""
    return f"{_share(row)}{'*' * (row['p'] >= LEVEL)}"


def _places(rows):
    """The place of each method on each board, 0 for the first and 100 for the last: dict of method to dict of board."""
    places = {}
    for board, ordered in _by_board(rows).items():
        for rank, row in enumerate(ordered):
            places.setdefault(row["loss"], {})[board] = 100 * rank / max(len(ordered) - 1, 1)
    return places


def _by_board(rows):
    """The rows of each board, the highest MAP@R first."""
    ordered = sorted(rows, key=lambda row: -row["map@r"])
    boards = {board: runner.where(ordered, data=board[0], start=board[1]) for board in setting.BOARDS}
    return {board: found for board, found in boards.items() if found}


def _verdict(entry):
    """The first of a board, the methods that cannot be told from it, and the places of the baselines."""
    (data, start), rows = entry
    first, *others = rows
    level = [row["loss"] for row in others if row["p"] >= LEVEL]
    places = [f"{row['loss']} {place}" for place, row in enumerate(rows, start=1) if row["loss"] in BASELINES]
    return (
        f"**{data.capitalize()}, {start} start.** {first['loss']} is first of {len(rows)} methods with a MAP@R of "
        f"{_share(first)}; the last one has {_share(rows[-1])}. {len(level)} cannot be told from it: "
        f"{'; '.join(level) or 'no other'}. Places of the baselines: {', '.join(places)}."
    )


def _share(row):
    return f"{100 * row['map@r']:.1f} ± {100 * row['map@r half']:.1f}"


def _across(rows, places):
    """How far the order of the methods is the same on two boards."""
    for one, other in zip(
        setting.BOARDS[::2] + setting.BOARDS[:2], setting.BOARDS[1::2] + setting.BOARDS[2:], strict=True
    ):
        both = [of_method for of_method in places.values() if one in of_method and other in of_method]
        if len(both) > 2:
            correlation = stats.spearmanr(*([of_method[board] for of_method in both] for board in (one, other)))[0]
            yield (
                f"**{', '.join(one)}, and {', '.join(other)}.** Spearman's rank correlation of {len(both)} methods is "
                f"{correlation:.2f}."
            )


def draw(path, rows):
    """MAP@R with 95% intervals: a panel per board, a line per method, in the order of the mean place."""
    places = _places(rows)
    order = sorted(places, key=lambda loss: -np.mean(list(places[loss].values())))
    boards = list(_by_board(rows))
    figure, panels = plt.subplots(
        1, len(boards), figsize=(2 + 3 * len(boards), 1 + 0.19 * len(order)), sharey=True, squeeze=False
    )
    for axis, board in zip(panels[0], boards, strict=True):
        for number, family in enumerate(FAMILIES):
            found = runner.where(rows, data=board[0], start=board[1], family=family)
            color, marker = COLORS[number % len(COLORS)], "os^"[number // len(COLORS) % 3]
            _errorbars(axis, found, order, color=color, marker=marker, label=family)
        axis.set(title=", ".join(board), xlabel="MAP@R of the test classes, %", ylim=(-1, len(order)))
        axis.grid(axis="both", color="0.92")
        axis.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_yticks(range(len(order)), order, fontsize=7)
    figure.legend(*panels[0][-1].get_legend_handles_labels(), loc="lower center", ncol=7, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _errorbars(axis, rows, order, **options):
    """A point and an interval for each row, at the height of its method."""
    means, halves = ([100 * row[key] for row in rows] for key in ("map@r", "map@r half"))
    places = [order.index(row["loss"]) for row in rows]
    axis.errorbar(means, places, xerr=halves, linestyle="", markersize=3, capsize=1.5, **options)
