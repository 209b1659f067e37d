"""How the protocol was chosen, by validation classes and before the losses were compared.

Contrastive and multi-similarity losses with their default settings chose the batches, the number of steps and the two
learning rates of both starts; multi-similarity over proxies chose the learning rate of the proxies. Each variant
changes the base run.
"""

from dataclasses import replace

from studies import runner
from studies.leaderboard import setting
from studies.leaderboard.starts import SETS

LOSSES = {"contrastive": "negative_margin 1", "multi-similarity": "threshold 0.5"}
OVER_PROXIES = "multi-similarity over proxies"
VARIANTS = {
    "32 classes per batch, 1,000 steps, learning rate 0.01": {},
    "16 classes per batch, 2,000 steps": {"classes_per_batch": 16, "steps": 2000},
    "64 classes per batch, 500 steps": {"classes_per_batch": 64, "steps": 500},
    "learning rate 0.001": {"learning_rate": 1e-3},
    "learning rate 0.003": {"learning_rate": 3e-3},
    "learning rate 0.03": {"learning_rate": 3e-2},
    "learning rate 0.1": {"learning_rate": 1e-1},
}
MULTIPLIERS = {
    "learning rate 0.01, the same for proxies": {"multiplier": 1.0},
    "3 times that for proxies": {"multiplier": 3.0},
    "10 times that for proxies": {"multiplier": 10.0},
}
TRAINED = {
    "trained start, 500 steps, learning rate 0.003": {"learning_rate": 3e-3},
    "learning rate 0.001, trained start": {"learning_rate": 1e-3},
    "learning rate 0.01, trained start": {"learning_rate": 1e-2},
    "learning rate 0.03, trained start": {"learning_rate": 3e-2},
    "250 steps, trained start": {"learning_rate": 3e-3, "steps": 250},
    "1,000 steps, trained start": {"learning_rate": 3e-3, "steps": 1000},
}
GROUPS = (
    ("random", LOSSES, VARIANTS),
    ("random", {OVER_PROXIES: LOSSES["multi-similarity"]}, MULTIPLIERS),
    ("trained", LOSSES, TRAINED),
)


def runs(options):
    """The run of each variant, by set, loss and name of the variant."""
    variants = [
        (start, name, {"loss": loss, "settings": text, "multiplier": 1.0, **changes})
        for start, losses, of_start in GROUPS
        for loss, text in losses.items()
        for name, changes in of_start.items()
    ]
    return {
        (data, changes["loss"], name): replace(setting.on_board(options.base, data, start), **changes)
        for data in SETS
        for start, name, changes in runner.some(variants, options)
    }


def rows(options):
    """One row per run."""
    found = runs(options)
    rows = setting.rows_of(runner.finished(found.values(), options))
    return [{"variant": name, **row} for (_, _, name), row in zip(found, rows, strict=True)]
