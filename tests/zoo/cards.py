"""Entries with a card and without a network: enough for lists, and for all that is read before a model."""

import json

from tfdml._core.checksums import write_checksums
from tfdml.zoo.card import FILE

CARD = {
    "format": 2,
    "name": "squares",
    "summary": "Squares.",
    "recipe": "train.py",
    "command": "python train.py",
    "seed": 3,
    "training": {"loss": "NTXentLoss", "steps": 1},
    "selection": "None.",
    "limitations": "Small.",
    "data": "squares/exact-cosine/v1",
    "protocol": "squares/exact-cosine/v1",
    "metric": "cosine",
    "metrics": {
        "recall@1": {"value": 0.912, "low": 0.8, "high": 1.0},
        "map@r": {"value": 0.1234, "low": 0.05, "high": 0.2},
    },
    "queries": 24,
    "items": 24,
    "classes": 6,
    "towers": [],
    "input": [8, 8, 1],
    "dimension": 4,
    "parameters": 1234,
    "preprocessing": {"size": [8, 8], "channels": 1},
    "license": "CC0-1.0",
    "sizes": {"model.keras": 1_260_000},
    "hardware": "a processor",
    "versions": "tfdml 0.1.0",
    "timing": {"milliseconds": 0.125, "batch_size": 32, "hardware": "a processor"},
}


def write_entry(root, name, text=None, /, **changes):
    """Write an entry whose checksums are right: with `CARD` under its name and the changes, or with another text."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / FILE).write_text(json.dumps({**CARD, "name": name, **changes}) if text is None else text)
    write_checksums(folder)
    return folder
