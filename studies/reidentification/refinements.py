"""What does each refinement of a search add to softmax features, and to batch-hard triplets?"""

from dataclasses import replace

from recipes import reidentification as recipe
from studies import runner
from studies.reidentification import setting

COLUMNS = {"cmc@1": "CMC@1", "cmc@5": "CMC@5", "cmc@10": "CMC@10", "map": "mAP"}


def rows(options):
    """One row per method, seed and refinement, of the test characters."""
    runs = [
        replace(options.base, loss=method, learning_rate=rate, seed=seed, refinements="chosen")
        for method, rate in recipe.RATES.items()
        for seed in options.seeds
    ]
    return setting.rows_of(runner.finished(runs, options))


def tables(rows):
    """Means and 95% intervals over seeds, and the difference of mAP from the plain search of the same seeds."""
    rows, body = runner.where(rows, loss="batch hard"), []
    plain = [row["map"] for row in runner.where(rows, refinement="plain")]
    for name in recipe.CHOSEN["batch hard"]:
        seeds = runner.where(rows, refinement=name)
        gains = [{"map": row["map"] - before} for row, before in zip(seeds, plain, strict=True)]
        gain = "" if name == "plain" else setting.share(gains, "map")
        body.append([name, *(setting.share(seeds, key) for key in COLUMNS), gain])
    return {"refinements": runner.markdown(["search", *COLUMNS.values(), "mAP above plain"], body, texts=(0,))}
