"""The tables and figures of docs/mining.md, from the studies in recipes/mining.

    python benchmarks/mining.py                 # an hour on two cores; goes on where it was stopped
    python benchmarks/mining.py --only-tables   # draws and writes from benchmarks/results alone

Every training run is kept under `runs/mining`; delete it to start anew.
"""

import _studies

FOLDER = "mining"
TABLES = {
    "samplings": "samplings",
    "batch sizes": "batch_sizes",
    "boundaries": "boundaries",
    "weights": "weights",
    "temperatures": "temperatures",
}
STUDIES = (*TABLES.values(), "imbalance", "top_k", "distances")


def filled(text):
    """The page with its tables made anew."""
    rows = {mark: _studies.rows(FOLDER, name) for mark, name in TABLES.items()}
    tables = {mark: _studies.study(FOLDER, name).markdown(rows[mark]) for mark, name in TABLES.items()}
    first = rows["samplings"][0]
    return _studies.filled(text, "mining.py", tables, f"{first['hardware']}; {first['versions']}.")


if __name__ == "__main__":
    page = _studies.ROOT / "docs" / "mining.md"
    _studies.main(__doc__.splitlines()[0], FOLDER, "mining", STUDIES, page, filled)
