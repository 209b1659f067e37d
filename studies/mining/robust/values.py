"""Tables 1 and 3 of "A simple and effective framework" from ImageNet: do the paper's values help?

Photo patches, features of a network of ImageNet, as on the board, with 24 trials of each method: K of 512 to 4,096
ordered pairs of 128 images or temperatures from 0.1 to 3, or four values of a method without them; two more values, and
three learning rates, one above those of the board. MAP@R of the validation photographs chooses; five seeds are tested.

    KERAS_BACKEND=jax python -m studies mining robust_values
"""

from dataclasses import replace

from studies import runner
from studies.leaderboard import setting, whole
from studies.leaderboard.family import trials_and_tests
from studies.leaderboard.methods import GRIDS


def rows(options):
    """One row per trial, of the validation photographs, and one per seed of the best trials, of the test."""
    of_board = setting.options(options.folder, quick=options.quick, workers=options.workers)
    base = setting.on_board(of_board.base, "photo patches", "trained")
    losses = runner.some(GRIDS, options)
    groups = [runner.some(setting.trials(replace(base, loss=loss)), options) for loss in losses]
    return setting.rows_of(runner.finished(trials_and_tests(groups, of_board), of_board))


def tables(rows):
    """The best trial of each method."""
    return {"robust values": whole.board(rows, "photo patches, features")}
