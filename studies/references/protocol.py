"""How the protocol was chosen, by validation classes and before the losses were compared.

Contrastive and multi-similarity losses with their default settings chose the batches, the number of steps and the two
learning rates; multi-similarity over proxies chose the learning rate of the proxies. Each variant changes the base run.
"""

from dataclasses import replace

from studies import runner
from studies.references import setting

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


def runs(options):
    """The run of each variant, by set, loss and name of the variant."""
    variants = [(loss, text, name) for loss, text in LOSSES.items() for name in VARIANTS]
    variants += [(OVER_PROXIES, LOSSES["multi-similarity"], name) for name in MULTIPLIERS]
    changes, base = VARIANTS | MULTIPLIERS, replace(options.base, multiplier=1.0)
    return {
        (data, loss, name): replace(base, **{"data": data, "loss": loss, "settings": text, **changes[name]})
        for data in setting.SETS
        for loss, text, name in runner.some(variants, options)
    }


def rows(options):
    """One row per run."""
    found = runs(options)
    rows = setting.rows_of(runner.finished(found.values(), options))
    return [{"variant": name, **row} for (_, _, name), row in zip(found, rows, strict=True)]


def tables(rows):
    """MAP@R of the validation classes for each variant, loss and set."""
    return {"protocol": "\n\n".join([_table(rows, VARIANTS, LOSSES), _table(rows, MULTIPLIERS, [OVER_PROXIES])])}


def _table(rows, variants, losses):
    columns = [(data, loss) for data in setting.SETS for loss in losses]
    body = [
        [name, *(_percent(runner.where(rows, variant=name, data=data, loss=loss)) for data, loss in columns)]
        for name in variants
    ]
    head = ["", *(f"{data}, {loss}" for data, loss in columns)]
    return runner.markdown(head, body, rules=["---", *["---:"] * len(columns)])


def _percent(rows):
    """MAP@R of one row as text; empty for none."""
    return f"{runner.mean_of(rows, 'map@r'):.1f}" if rows else ""
