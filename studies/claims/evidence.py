"""Effects from committed rows: differences of two methods that are paired by seed, and the verdict that they allow."""

import functools
from dataclasses import dataclass

import numpy as np

from studies import pages, runner
from studies.leaderboard.methods import FAMILIES

POINTS = 2.0  # within which methods are equal

GLYPHS = "glyphs, from scratch"
GLYPH_FEATURES = "glyphs, features of a trained network"
WHOLE_GLYPHS = "glyphs, all layers of a trained network"
PHOTOS = "photo patches, from scratch"
PHOTO_FEATURES = "photo patches, features of a network of ImageNet"
WHOLE_PHOTOS = "photo patches, all layers of a network of ImageNet"
SETTINGS = (GLYPHS, GLYPH_FEATURES, WHOLE_GLYPHS, PHOTOS, PHOTO_FEATURES, WHOLE_PHOTOS)
# The board of the leaderboard that is a setting.
BOARDS = {
    GLYPHS: {"data": "glyphs", "start": "random"},
    GLYPH_FEATURES: {"data": "glyphs", "start": "trained"},
    PHOTOS: {"data": "photo patches", "start": "random"},
    PHOTO_FEATURES: {"data": "photo patches", "start": "trained"},
    WHOLE_PHOTOS: {"data": "photo patches", "start": "whole"},
}
LEADERBOARD = tuple(f"leaderboard/{name}.csv" for name in (*FAMILIES, "whole"))


@dataclass(frozen=True)
class Evidence:
    """What decides a claim in one setting: pairs of methods, whose difference the claim names.

    Attributes:
        setting: one of `SETTINGS`; empty where nothing is trained.
        command: what makes the rows, after `python -m`.
        files: the rows, in `results`.
        effects: pairs of methods, (better, worse). A method is the settings of its rows, one row for each seed, or a
            tuple of such settings: its score is the spread over them, negative since less is better.
        why: the reason of the verdict where it is known.
        key: column of the score.
        unit: what the difference of scores is multiplied by; 100 for points.
        equal: whether the claim is that there is no difference.
    """

    setting: str
    command: str
    files: tuple[str, ...] = ()
    effects: tuple[tuple[dict | tuple[dict, ...], dict | tuple[dict, ...]], ...] = ()
    why: str = ""
    key: str = "recall@1"
    unit: float = 100.0
    equal: bool = False

    def differences(self):
        """The differences of each effect, one for each seed that both methods have."""
        rows = [row for name in self.files for row in rows_of(name)]
        return [self._paired(*(scores_by_seed(rows, method, self.key) for method in effect)) for effect in self.effects]

    def _paired(self, better, worse):
        return [self.unit * (better[seed] - worse[seed]) for seed in sorted(better.keys() & worse.keys())]

    def intervals(self):
        """The mean of the differences of each effect, and its 95% interval over seeds."""
        return [pages.interval(differences) for differences in self.differences()]

    def is_complete(self):
        """Whether there are rows of all methods."""
        if not all((pages.RESULTS / name).exists() for name in self.files):
            return False
        rows = [row for name in self.files for row in rows_of(name)]
        methods = [method for effect in self.effects for side in effect for method in _as_tuple(side)]
        return all(any(method.items() <= row.items() for row in rows) for method in methods)

    def verdict(self):
        """ "holds", "in part" or "not seen"; "not run" where rows are missing."""
        return verdict(self.intervals(), equal=self.equal) if self.is_complete() else "not run"


def study(setting, name, effects, *, beside=(), **options):
    """Evidence of the study `name`, "PAPER STUDY", and of the rows of other studies `beside` it."""
    files = tuple(f"{one.replace(' ', '/')}.csv" for one in (name, *beside))
    return Evidence(setting, f"studies {name}", files, tuple(effects), **options)


def board(setting, effects, **options):
    """Evidence of the leaderboard: pairs of names of methods on the board of a setting."""
    where = BOARDS[setting]
    command = "studies leaderboard whole" if setting == WHOLE_PHOTOS else "studies leaderboard"
    made = tuple(tuple({**where, "part": "test", "loss": loss} for loss in effect) for effect in effects)
    return Evidence(setting, command, LEADERBOARD, made, **options)


def verdict(intervals, *, equal=False):
    """What the intervals (mean, low, high) say of a claim: "holds", "in part" or "not seen"."""
    holds = [low > -POINTS and high < POINTS if equal else low > 0 for _, low, high in intervals]
    return "holds" if all(holds) else "in part" if any(holds) else "not seen"


@functools.cache
def rows_of(name):
    """The rows of a file of `results`."""
    return runner.read_rows(pages.RESULTS / name)


def scores_by_seed(rows, method, key):
    """Seed, or round, to the score of a method: of its one row, or minus the spread over several; 0 without a seed."""
    if isinstance(method, tuple):
        each = [scores_by_seed(rows, settings, key) for settings in method]
        return {seed: -float(np.ptp([scores[seed] for scores in each])) for seed in each[0]}
    chosen = [row for row in rows if all(row.get(name) == value for name, value in method.items())]
    scores = {row.get("seed", row.get("round", 0)): row[key] for row in chosen}
    if len(scores) < len(chosen) or not chosen:
        raise ValueError(f"{len(chosen)} rows have {method}, expected one for each seed. Name more settings.")
    return scores


def _as_tuple(method):
    return method if isinstance(method, tuple) else (method,)
