"""Seconds to change, save and load an index of a million vectors, beside those to build it.

The vectors are those of `search.py`. Each change is made to the index as left by the one before, and the median of
several is stated; an index is built and loaded once. `over_build` is the share of the time to build.

    python benchmarks/index.py            # 1,000,000 x 128, 10,000 added at a time
    python benchmarks/index.py --quick    # 20,000 x 32, 200 at a time
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from _report import RESULTS, print_table, write_csv
from search import make_vectors

import tfdml

COLUMNS = ["index", "rows", "dim", "changed", "what", "seconds", "over_build"]


def seconds(function):
    """Seconds of a call, and what it returns."""
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def rows_of(options, make):
    """Rows of the table for one kind of index."""
    rows, dim, few = (20_000, 32, 200) if options.quick else (options.rows, options.dim, options.changed)
    vectors, more = make_vectors(rows, dim, 1), make_vectors(few, dim, 2)
    build, index = seconds(lambda: make(vectors))
    times = {"build": [build], "add": [], "remove": []}
    with tempfile.TemporaryDirectory() as folder:
        times["save all"] = [seconds(lambda: index.save(Path(folder) / "index"))[0]]
        times["load"] = [seconds(lambda: tfdml.search.load(Path(folder) / "index"))[0]]
        times["save what was added"] = []
        for start in range(rows, rows + options.repeats * few, few):
            times["add"].append(seconds(lambda start=start: index.add(more, np.arange(start, start + few)))[0])
            times["save what was added"].append(seconds(lambda: index.save(Path(folder) / "index"))[0])
            gone = index.ids[start - rows :][:few]
            times["remove"].append(seconds(lambda gone=gone: index.remove(gone))[0])
    for what, found in times.items():
        about = {"index": make.__name__, "rows": rows, "dim": dim, "changed": few, "what": what}
        yield about | {"seconds": statistics.median(found), "over_build": statistics.median(found) / build}


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--changed", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", default=RESULTS / "index.csv")
    options = parser.parse_args()
    about = tfdml.environment("scann")
    makes = (tfdml.search.Exact, tfdml.search.Scann)
    rows = [row | about for make in makes for row in rows_of(options, make)]
    print_table(rows, COLUMNS)
    write_csv(options.output, rows)


if __name__ == "__main__":
    main()
