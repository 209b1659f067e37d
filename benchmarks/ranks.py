"""The three ways in which `tfdml.metrics.retrieval` finds ranks, each where it can be chosen: best of several runs.

All ways return the same values, to the bit; the program stops where they do not.

    python benchmarks/ranks.py            # two minutes on two cores
    python benchmarks/ranks.py --quick    # small sizes
"""

import numpy as np
from _report import options_of, timed, write_table

from tfdml.metrics import retrieval
from tfdml.metrics.retrieval import ranks

WAYS = {"tile": ranks.tile, "sort": ranks.sort, "count": ranks.count}
CASES = (
    {"rows": 12_000, "dim": 128, "per_class": 5, "full_map": False},
    {"rows": 12_000, "dim": 128, "per_class": 60, "full_map": False},
    {"rows": 10_000, "dim": 64, "per_class": 1_000, "full_map": False},
    {"rows": 12_000, "dim": 128, "per_class": 5, "full_map": True},
    {"rows": 12_000, "dim": 128, "per_class": 30, "full_map": True},
    {"rows": 12_000, "dim": 512, "per_class": 30, "full_map": True},
)
QUICK = ({"rows": 600, "dim": 16, "per_class": 5, "full_map": True},)


def make_data(rows, dim, per_class):
    """Vectors around the center of their class, `(rows, dim)` float32, and `(rows,)` labels."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(rows) % (rows // per_class))
    x = rng.standard_normal((rows // per_class, dim))[labels] + 1.8 * rng.standard_normal((rows, dim))
    return x.astype("float32"), labels


def measure(x, labels, way, full_map):
    """Values per query, and seconds, with one way to find ranks."""
    ranks._fastest_method = lambda *arguments: WAYS[way]
    values, clock, processor = timed(
        lambda: retrieval(x, labels, k=(1, 10, 100), full_map=full_map, per_query=True),
    )
    return values, {"seconds": clock, "cpu_seconds": processor}


def rows_of(case, repeats):
    """A row for each way; the ways take turns."""
    x, labels = make_data(case["rows"], case["dim"], case["per_class"])
    ways = [way for way in WAYS if way != ("sort" if case["full_map"] else "tile" if case["per_class"] > 100 else "")]
    runs = {way: [] for way in ways}
    expected, _ = measure(x, labels, "count", case["full_map"])
    for _ in range(repeats):
        for way in ways:
            values, seconds = measure(x, labels, way, case["full_map"])
            runs[way].append(seconds)
            for name, array in values.items():
                np.testing.assert_array_equal(array, expected[name])
    for way, seconds in runs.items():
        yield {**case, "way": way, **{name: min(run[name] for run in seconds) for name in seconds[0]}}


def main():
    """Measure every case and write the table."""
    options = options_of(__doc__, "ranks.csv", repeats=3, quick={"repeats": 1})
    cases = QUICK if options.quick else CASES
    write_table(options.output, [row for case in cases for row in rows_of(case, options.repeats)])


if __name__ == "__main__":
    main()
