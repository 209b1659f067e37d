"""Queries per second under a filter, at a recall of 0.9: exact, ScaNN, and faiss by cells and by a graph.

The vectors are those of `search.py`. A filter lets a random share of them pass. For each filter, the number of cells to
search, or of candidates of the graph, is doubled until the recall@10 against exact search under the same filter, on 500
queries that are not timed, reaches the wanted one; the recall that is reported is that of another 500. Queries are
searched in batches, on all cores, in turns.

    python benchmarks/filters.py            # 1,000,000 x 96
    python benchmarks/filters.py --quick    # 30,000 x 32
"""

import argparse
import time

import numpy as np
from _report import RESULTS, hardware, median_seconds, print_table, today, versions, write_csv
from search import make_vectors

import tfdml

COLUMNS = ["rows", "dim", "way", "share", "effort", "recall@10", "queries_per_second", "over_exact", "build_s"]
K, CHOSEN = 10, 500


def built(vectors):
    """Each kind of index: its name, itself, its setting that trades time for recall, and the seconds of its build."""
    kinds = {
        "exact": (lambda: tfdml.search.Exact(vectors), None),
        "scann": (lambda: tfdml.search.Scann(vectors, method="partitioned"), "leaves_to_search"),
        "scann, soar": (lambda: tfdml.search.Scann(vectors, method="partitioned", soar=1.5), "leaves_to_search"),
        "faiss cells": (lambda: tfdml.search.Faiss(vectors, method="partitioned"), "leaves_to_search"),
        "faiss graph": (lambda: tfdml.search.Faiss(vectors, method="graph"), "rescore"),
    }
    for name, (build, setting) in kinds.items():
        begin = time.perf_counter()
        yield name, build(), setting, time.perf_counter() - begin


def tune(index, setting, queries, exact, mask, recall):
    """Set the smallest effort, doubled from the least, whose recall on the queries is reached."""
    effort, most = (1, index.leaves) if setting == "leaves_to_search" else (K, len(index))
    while True:
        setattr(index, setting, effort)
        if effort == most or tfdml.search.neighbor_recall(index.search(queries, K, where=mask)[0], exact) >= recall:
            return effort
        effort = min(most, 2 * effort)


def rows_of(options):
    """Rows of the table, for each filter one per kind."""
    rows, dim, timed = (30_000, 32, 200) if options.quick else (options.rows, options.dim, options.queries)
    vectors, queries = make_vectors(rows, dim, 1), make_vectors(2 * CHOSEN + timed, dim, 2)
    choose, report, many = queries[:CHOSEN], queries[CHOSEN : 2 * CHOSEN], queries[2 * CHOSEN :]
    order = np.random.default_rng(options.seed).permutation(rows)
    indexes = list(built(vectors))
    exact = indexes[0][1]
    for share in options.shares:
        mask = order < round(share * rows) if share < 1 else None
        expected = {name: exact.search(x, K, where=mask)[0] for name, x in {"choose": choose, "report": report}.items()}
        efforts = {
            name: "" if setting is None else tune(index, setting, choose, expected["choose"], mask, options.recall)
            for name, index, setting, _ in indexes
        }
        searches = {
            name: lambda index=index, mask=mask: index.search(many, K, where=mask) for name, index, _, _ in indexes
        }
        seconds = median_seconds(searches, repeats=options.repeats)
        for name, index, _, build_s in indexes:
            recall = tfdml.search.neighbor_recall(index.search(report, K, where=mask)[0], expected["report"])
            speed = {"queries_per_second": timed / seconds[name], "over_exact": seconds["exact"] / seconds[name]}
            settings = {"share": share, "effort": efforts[name], f"recall@{K}": recall}
            yield {"rows": rows, "dim": dim, "way": name, **settings, **speed, "build_s": build_s}


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--recall", type=float, default=0.9)
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0, 0.5, 0.1, 0.01])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default=RESULTS / "filters.csv")
    options = parser.parse_args()
    facts = {"measured": today(), "hardware": hardware(), "versions": versions("scann", "faiss-cpu")}
    rows = [row | facts for row in rows_of(options)]
    print_table(rows, COLUMNS)
    write_csv(options.output, rows)


if __name__ == "__main__":
    main()
