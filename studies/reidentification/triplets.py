"""The table of Hermans et al. in the slides: which triplets of a batch are used, by margins and the soft margin."""

from dataclasses import replace

import tfdml
from studies import runner
from studies.reidentification import setting

MARGINS = ("0.2", "1.0", "soft")
RATES = (1e-3, 3e-3)
EUCLIDEAN = {"distance": "euclidean"}


def _random(run, **options):
    return tfdml.losses.TripletLoss(negatives=tfdml.miners.RandomNegatives(seed=run.seed), **EUCLIDEAN, **options)


LOSSES = {
    "triplet": _random,
    "batch hard": lambda run, **options: tfdml.losses.BatchHardTripletLoss(**options),
    "batch hard, nonzero": lambda run, **options: tfdml.losses.BatchHardTripletLoss(normalize="active", **options),
    "batch all": lambda run, **options: tfdml.losses.TripletLoss(**EUCLIDEAN, **options),
    "batch all, nonzero": lambda run, **options: tfdml.losses.TripletLoss(normalize="active", **EUCLIDEAN, **options),
    "lifted, all positives": lambda run, **options: tfdml.losses.GeneralizedLiftedLoss(**options),
    "lifted, one positive": lambda run, **options: tfdml.losses.LiftedStructureLoss(squared=False, **options),
}
SOFT = ("triplet", "batch hard", "batch all")  # elsewhere, all terms are above 0, or the margin is soft already


def loss_of(run):
    """The loss of a run."""
    return LOSSES[run.loss](run, **({"soft": True} if run.margin == "soft" else {"margin": float(run.margin)}))


def rows(options):
    """One row per loss and rate, of the validation characters, and one per loss, margin and seed of the best rate."""
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
        for seed in options.seeds
    ]
    return setting.rows_of(runner.finished(trials + tested, options))


def tables(rows):
    """mAP and rank-1 of each way of mining, by margins."""
    tested = [row | {"margin": str(row["margin"])} for row in runner.where(rows, part="test")]
    body = []
    for loss in LOSSES:
        runs = runner.where(tested, loss=loss)
        cells = [runner.where(runs, margin=margin) for margin in MARGINS]
        rate = f"{runs[0]['learning_rate']:g}" if runs else ""
        shares = [[setting.share(each, key) if each else "" for each in cells] for key in ("map", "cmc@1")]
        body.append([loss, rate, *shares[0], *shares[1]])
    head = ["", "learning rate", *(f"{key}, {margin_of(margin)}" for key in ("mAP", "rank-1") for margin in MARGINS)]
    return {"triplets": runner.markdown(head, body, rules=["---"] + ["---:"] * (len(head) - 1))}


def margin_of(margin):
    """A margin in the head of the table."""
    return "soft margin" if margin == "soft" else f"margin {margin}"
