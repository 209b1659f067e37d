"""Queries per second of ScaNN at a recall of 0.95, beside exact search of the same vectors.

The vectors vary in few directions, as trained embeddings do: points around many centers in a space of 32 dimensions,
mapped into 128, with noise in all of them. The number of cells to search is doubled until the recall@10 against
exact search, on 1,000 queries that are not timed, reaches the wanted one; the recall that is reported is that of
another 1,000. Queries are searched in batches, on all cores, in turns; the index is built before.

    python benchmarks/search.py            # 1,000,000 x 128
    python benchmarks/search.py --quick    # 30,000 x 32
"""

import numpy as np
from _report import median_seconds, options_of, timed, write_table

import tfdml

K = 10


def make_vectors(rows, dim, seed):
    """`(rows, dim)` float32 around centers that are the same for all seeds."""
    world, rng = np.random.default_rng(0), np.random.default_rng(seed)
    centers = world.standard_normal((2_000, 32), dtype=np.float32)
    to_all = world.standard_normal((32, dim), dtype=np.float32) / np.float32(32**0.5)
    inner = centers[rng.integers(len(centers), size=rows)] + 0.6 * rng.standard_normal((rows, 32), dtype=np.float32)
    return inner @ to_all + 0.1 * rng.standard_normal((rows, dim), dtype=np.float32)


def tuned(index, queries, exact, recall):
    """The index with the fewest cells to search, of 1, 2, 4 ..., whose recall on the queries is reached."""
    index.leaves_to_search = 1
    while tfdml.search.neighbor_recall(index.search(queries, K)[0], exact) < recall:
        if index.leaves_to_search == index.leaves:
            raise SystemExit(f"All {index.leaves} cells do not reach a recall of {recall}. Raise rescore.")
        index.leaves_to_search = min(index.leaves, 2 * index.leaves_to_search)
    return index


def rows_of(options):
    """Rows of the table: exact search, and ScaNN."""
    rows, dim = options.rows, options.dim
    vectors, queries = make_vectors(rows, dim, 1), make_vectors(2_000 + options.queries, dim, 2)
    exact = tfdml.search.Exact(vectors)
    index, build, _ = timed(lambda: tfdml.search.Scann(vectors, method="partitioned"))
    choose, report, many = queries[:1_000], queries[1_000:2_000], queries[2_000:]
    index = tuned(index, choose, exact.search(choose, K)[0], options.recall)
    recall = tfdml.search.neighbor_recall(index.search(report, K)[0], exact.search(report, K)[0])
    few = many[: min(len(many), 1_000)]
    seconds = median_seconds(
        {"exact": lambda: exact.search(few, K), "scann": lambda: index.search(many, K)}, repeats=options.repeats
    )
    speeds = {"exact": len(few) / seconds["exact"], "scann": len(many) / seconds["scann"]}
    settings = {"exact": ("", 1.0, ""), "scann": (index.leaves_to_search, recall, build)}
    for way, (leaves, found, build_s) in settings.items():
        numbers = {"leaves_to_search": leaves, f"recall@{K}": found, "queries_per_second": speeds[way]}
        over = {"over_exact": speeds[way] / speeds["exact"], "build_s": build_s}
        yield {"rows": rows, "dim": dim, "way": way, **numbers, **over}


def main():
    """Measure and write the table."""
    sizes, small = {"rows": 1_000_000, "dim": 128, "queries": 20_000}, {"rows": 30_000, "dim": 32, "queries": 2_000}
    options = options_of(__doc__, "search.csv", **sizes, recall=0.95, repeats=3, quick=small)
    write_table(options.output, rows_of(options), "scann")


if __name__ == "__main__":
    main()
