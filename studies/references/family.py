"""The losses of one family on both sets: four trials each, then five seeds of the best trial."""

from dataclasses import replace

from studies import runner
from studies.references import setting

COLUMNS = {"recall@1": "Recall@1", "map@r": "MAP@R"}


class Family:
    """A study of some losses.

    Args:
        name: name of the family, which marks its tables.
        losses: keys of `METHODS`.
    """

    def __init__(self, name, losses):
        self.name, self.losses = name, losses

    def rows(self, options):
        """One row per trial, of the validation classes, and one per seed of the best trials, of the test classes."""
        groups = [
            runner.some(setting.trials(replace(options.base, data=data, loss=loss)), options)
            for loss in runner.some(self.losses, options)
            for data in setting.SETS
        ]
        trials = [trial for group in groups for trial in group]
        runner.finished(trials, options)
        chosen = [best(group, options) for group in groups]
        tested = [replace(run, part="test", seed=seed) for run in chosen for seed in options.seeds]
        return setting.rows_of(runner.finished(trials + tested, options))

    def tables(self, rows):
        """A table for each set."""
        return {self.name: "\n\n".join(table(data, runner.where(rows, data=data)) for data in setting.SETS)}


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
    head = [title, "learning rate", "settings", *COLUMNS.values()]
    return runner.markdown(head, body, rules=["---", "---:", "---", "---:", "---:"])


def share(rows, key):
    """The mean over rows and half of its 95% interval, in percent, as text."""
    mean, half = setting.interval([row[key] for row in rows])
    return f"{100 * mean:.1f} ± {100 * half:.1f}"
