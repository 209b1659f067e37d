"""The learning rates and the settings of refinements that recipes/reidentification.py has, by validation characters."""

import json
from dataclasses import replace

from recipes import reidentification as recipe
from studies import runner
from studies.reidentification import setting


def rows(options):
    """One row per rate of each method, and one per setting of each refinement at the best rate; all of seed 0."""
    base = replace(options.base, part="validation")
    grids = []
    for method in recipe.RATES:
        trials = [
            replace(base, loss=method, learning_rate=rate) for rate in runner.some(setting.RATES[method], options)
        ]
        scores = [result["scores"][0]["map"] for result in runner.finished(trials, options)]
        grids += trials
        grids.append(replace(trials[scores.index(max(scores))], refinements="grid"))
    return setting.rows_of(runner.finished(grids, options))


def chosen(rows, method):
    """The learning rate of the highest mAP of a method, and the settings of the highest mAP of each refinement."""
    tried = runner.where(rows, loss=method)
    best = max(runner.where(tried, refinements="none"), key=lambda row: row["map"])
    settings = {}
    for row in sorted(runner.where(tried, refinements="grid"), key=lambda row: row["map"]):
        settings[row["refinement"]] = json.loads(row["settings"])
    return best["learning_rate"], settings
