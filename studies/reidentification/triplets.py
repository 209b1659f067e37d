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


def tables(rows):
    """mAP and rank-1 of each way of mining, by the margins that have rows."""
    tested = [row | {"margin": str(row["margin"])} for row in runner.where(rows, part="test")]
    margins = [margin for margin in MARGINS if runner.where(tested, margin=margin)]
    body = []
    for loss in LOSSES:
        if not (runs := runner.where(tested, loss=loss)):
            continue
        cells = [runner.where(runs, margin=margin) for margin in margins]
        shares = [[setting.share(each, key) if each else "" for each in cells] for key in ("map", "cmc@1")]
        body.append([loss, f"{runs[0]['learning_rate']:g}", *shares[0], *shares[1]])
    head = ["", "learning rate", *(f"{key}, {margin_of(margin)}" for key in ("mAP", "rank-1") for margin in margins)]
    return {"triplets": runner.markdown(head, body, texts=(0,))}


def margin_of(margin):
    """A margin in the head of the table."""
    return "soft margin" if margin == "soft" else f"margin {margin}"
