"""The methods of one family on all boards: four trials each, then five seeds of the best trial."""

from dataclasses import replace

from studies import runner
from studies.leaderboard import setting
from studies.leaderboard.methods import METHODS
from studies.leaderboard.starts import STARTS

COLUMNS = {"recall@1": "Recall@1", "map@r": "MAP@R", "nmi": "NMI"}


class Family:
    """A study of some methods.

    Args:
        name: name of the family, which marks its tables.
        losses: keys of `METHODS`.
        starts: the starts that are trained.
    """

    def __init__(self, name, losses, starts=STARTS):
        self.name, self.losses, self.starts = name, losses, starts

    def rows(self, options):
        """One row per trial, of the validation classes, and one per seed of the best trials, of the test classes."""
        groups = [
            runner.some(setting.trials(setting.on_board(replace(options.base, loss=loss), data, start)), options)
            for data, start in setting.BOARDS
            if start in self.starts
            for loss in runner.some(self.losses, options)
            if start in METHODS[loss].starts()
        ]
        trials = [trial for group in groups for trial in group]
        runner.finished(trials, options)
        chosen = [best(group, options) for group in groups]
        tested = [replace(run, part="test", seed=seed) for run in chosen for seed in options.seeds]
        return setting.rows_of(runner.finished(trials + tested, options))

    def tables(self, rows):
        """A table for each board."""
        of_board = ((board, runner.where(rows, data=board[0], start=board[1])) for board in setting.BOARDS)
        return {self.name: "\n\n".join(table(", ".join(board), some) for board, some in of_board if some)}


def best(trials, options):
    """The trial with the highest MAP@R of the validation classes."""
    scores = [result["scores"]["map@r"] for result in runner.finished(trials, options)]
    return trials[scores.index(max(scores))]


def table(title, rows):
    """The settings of the best trial of each loss, and its numbers with 95% intervals, as a Markdown table."""
    tested = runner.where(rows, part="test")
    groups = {loss: runner.where(tested, loss=loss) for loss in dict.fromkeys(row["loss"] for row in tested)}
    body = [
        [loss, f"{runs[0]['learning_rate']:g}", runs[0]["settings"], *(share(runs, key) for key in COLUMNS)]
        for loss, runs in groups.items()
    ]
    head = [f"{title} start", "learning rate", "settings", *COLUMNS.values()]
    return runner.markdown(head, body, rules=["---", "---:", "---", *["---:"] * len(COLUMNS)])


def share(rows, key):
    """The mean over rows and half of its 95% interval, in percent, as text; empty for rows without the number."""
    values = [row[key] for row in rows]
    if "" in values:
        return ""
    mean, half = setting.interval(values)
    return f"{100 * mean:.1f} ± {100 * half:.1f}"
