"""Seconds to change, save and load an index of a million vectors, beside those to build it.

The vectors are those of `search.py`. Each change is made to the index as left by the one before, and the median of
several is stated; an index is built and loaded once. `over_build` is the share of the time to build.

    python benchmarks/index.py            # 1,000,000 x 128, 10,000 added at a time
    python benchmarks/index.py --quick    # 20,000 x 32, 200 at a time
"""

import statistics
import tempfile
from pathlib import Path

import numpy as np
from _report import options_of, timed, write_table
from search import make_vectors

import tfdml


def rows_of(options, make):
    """Rows of the table for one kind of index."""
    rows, dim, few = options.rows, options.dim, options.changed
    vectors, more = make_vectors(rows, dim, 1), make_vectors(few, dim, 2)
    index, build, _ = timed(lambda: make(vectors))
    times = {"build": [build], "add": [], "remove": []}
    with tempfile.TemporaryDirectory() as folder:
        times["save all"] = [timed(lambda: index.save(Path(folder) / "index"))[1]]
        times["load"] = [timed(lambda: tfdml.search.load(Path(folder) / "index"))[1]]
        times["save what was added"] = []
        for start in range(rows, rows + options.repeats * few, few):
            times["add"].append(timed(lambda start=start: index.add(more, np.arange(start, start + few)))[1])
            times["save what was added"].append(timed(lambda: index.save(Path(folder) / "index"))[1])
            gone = index.ids[start - rows :][:few]
            times["remove"].append(timed(lambda gone=gone: index.remove(gone))[1])
    for what, found in times.items():
        about = {"index": make.__name__, "rows": rows, "dim": dim, "changed": few, "what": what}
        yield about | {"seconds": statistics.median(found), "over_build": statistics.median(found) / build}


def main():
    """Measure and write the table."""
    sizes, small = {"rows": 1_000_000, "dim": 128, "changed": 10_000}, {"rows": 20_000, "dim": 32, "changed": 200}
    options = options_of(__doc__, "index.csv", **sizes, repeats=9, quick=small)
    makes = (tfdml.search.Exact, tfdml.search.Scann)
    write_table(options.output, [row for make in makes for row in rows_of(options, make)], "scann")


if __name__ == "__main__":
    main()
