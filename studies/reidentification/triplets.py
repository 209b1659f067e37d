"""The table of Hermans et al. in the slides: which triplets of a batch are used, by margins and the soft margin."""

from dataclasses import replace

from studies import runner
from studies.reidentification import setting
from studies.reidentification.setting import LOSSES, SOFT

MARGINS = ("0.1", "0.2", "0.5", "1.0", "soft")
RATES = (1e-3, 3e-3)


def rows(options):
    """One row per loss and rate, of the validation characters, and one per loss, margin and each of three seeds."""
    steps = min(options.base.steps, 200)
    base = replace(options.base, metric="euclidean", steps=steps)
    trials = [
        replace(base, loss=loss, margin="1.0", learning_rate=rate, part="validation")
        for loss in runner.some(LOSSES, options)
        for rate in RATES
    ]
    scores = dict(zip(trials, runner.finished(trials, options), strict=True))
    best = {}
    for run in sorted(trials, key=lambda run: scores[run]["scores"][0]["map"]):
        best[run.loss] = run
    tested = [
        replace(run, margin=margin, part="test", seed=seed)
        for run in sorted(best.values(), key=lambda run: list(LOSSES).index(run.loss))
        for margin in runner.some(MARGINS, options)
        if margin != "soft" or run.loss in SOFT
        for seed in options.seeds[:3]
    ]
    return setting.rows_of(runner.finished(trials + tested, options))
