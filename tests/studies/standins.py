"""Stand-ins for the training of a run."""

import csv
import functools
import zlib
from dataclasses import asdict

import tfdml
from studies import pages, runner

RECALLS = {"mining": (1, 10, 100), "importance_sampling": (1, 2, 8)}
PROTOCOLS = {
    "mining": "glyphs/class-disjoint/exact-cosine/v1",
    "importance_sampling": "glyphs/class-disjoint/exact-euclidean/v1",
}


def keys(paper):
    return [*(f"recall@{k}" for k in RECALLS[paper]), "map@r"]


def invented(paper, run):
    """Results of the shape of a training, with numbers in (0, 1) that its settings decide."""
    number = (1 + zlib.crc32(runner.name_of(run).encode()) % 999) / 1000
    numbers = dict.fromkeys(keys(paper), number)
    return {
        "run": asdict(run),
        "validation": numbers,
        "test": numbers,
        "watched": [{"step": step, "full_loss": number, **numbers} for step in (20, 40)],
        "seconds": 0.1,
        "protocol": PROTOCOLS[paper],
        **tfdml.environment(),
    }


@functools.cache
def published(paper):
    """Settings of a run, as in its file name, to its published rows; the rows of its watched steps, if it has some."""
    found = {}
    for path in sorted((pages.RESULTS / paper).glob("*.csv")):
        if path.stem in ("distances", "boundary_ranges", "robust_values", "robust_features"):
            continue
        for row in csv.DictReader(path.read_text().splitlines()):
            names = [name for name in (*settings(paper), "dim", "training_classes") if name in row]
            found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


@functools.cache
def settings(paper):
    module = __import__(f"studies.{paper}.setting", fromlist=["Run"])
    return tuple(asdict(module.Run()))


def recalled(paper, run):
    """The published results of a run, or of the same run when it is watched; else results that are worse than any."""
    wanted = {**asdict(run), "watch": True} if hasattr(run, "watch") else {}
    texts = (tuple("" if value is None else str(value) for value in one.values()) for one in (asdict(run), wanted))
    rows = next((published(paper)[text] for text in texts if text in published(paper)), None)
    if rows is None:
        return {**invented(paper, run), "validation": dict.fromkeys(keys(paper), -1.0)}
    first = rows[0]
    return {
        "run": asdict(run),
        "validation": {key: float(first[f"validation {key}"]) for key in keys(paper)},
        "test": {key: float(first[key]) for key in keys(paper)},
        "watched": [_watched(row, keys(paper)) for row in rows if "step" in row],
        "seconds": float(first["seconds"]),
        **{key: first[key] for key in ("protocol", "hardware", "versions")},
    }


def _watched(row, keys):
    numbers = {key: float(row[key]) for key in ("full_loss", *keys)}
    return {"step": int(row["step"]), **numbers}
