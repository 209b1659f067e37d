"""The methods of one family on all boards: four trials each, then five seeds of the best trial."""

from dataclasses import replace

from studies import runner
from studies.leaderboard import setting
from studies.leaderboard.methods import METHODS
from studies.leaderboard.starts import STARTS


class Family:
    """A study of some methods.

    Args:
        name: name of the family, as in `FAMILIES`.
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
        return setting.rows_of(runner.finished(trials_and_tests(groups, options), options))


def trials_and_tests(groups, options):
    """The trials of all groups, which are trained, then each seed of the best trial of each group, on the test part."""
    trials = [trial for group in groups for trial in group]
    runner.finished(trials, options)
    chosen = [best(group, options) for group in groups]
    return trials + [replace(run, part="test", seed=seed) for run in chosen for seed in options.seeds]


def best(trials, options):
    """The trial with the highest MAP@R of the validation classes."""
    scores = [result["scores"]["map@r"] for result in runner.finished(trials, options)]
    return trials[scores.index(max(scores))]
