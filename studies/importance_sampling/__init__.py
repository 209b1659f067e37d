"""The tables and figures of docs/importance-sampling.md, from the studies in recipes/importance_sampling.

    python benchmarks/importance_sampling.py                 # two hours on two cores; goes on where it was stopped
    python benchmarks/importance_sampling.py --only-tables   # draws and writes from benchmarks/results alone

Every training run is kept under `runs/importance_sampling`; delete it to start anew.
"""

import _studies

FOLDER = "importance_sampling"
STUDIES = ("negatives", "batch_designs", "exponent", "class_sizes", "train_loss")


def filled(text):
    """The page with its tables made anew."""
    designs, sizes = (_studies.study(FOLDER, name) for name in ("batch_designs", "class_sizes"))
    of_designs, of_sizes = (_studies.rows(FOLDER, name) for name in ("batch_designs", "class_sizes"))
    tables = {
        "designs": designs.markdown(of_designs),
        "spreads": designs.spreads(of_designs),
        "spreads at one rate": designs.at_one_rate(of_designs),
        "sizes": sizes.markdown(of_sizes),
    }
    about = f"{of_designs[0]['hardware']}; {of_designs[0]['versions']}."
    return _studies.filled(text, "importance_sampling.py", tables, about)


if __name__ == "__main__":
    page = _studies.ROOT / "docs" / "importance-sampling.md"
    _studies.main(__doc__.splitlines()[0], FOLDER, "importance", STUDIES, page, filled)
