"""Queries per second under a filter, at wanted recalls: exact, ScaNN, faiss by cells and by a graph, and Lance.

The vectors are those of `search.py`. A filter lets a random share of them pass. For each filter, the number of cells to
search, or of candidates of the graph, is doubled until the recall@10 against exact search under the same filter, on 500
queries that are not timed, reaches the wanted one; the recall that is reported is that of another 500. Queries are
searched in batches, on all cores, in turns. `mib` is the size of the saved index. `--lance` also measures a table on
disk, of 1,000,000 x 128, and a recall of 0.99.

    python benchmarks/filters.py            # 1,000,000 x 96
    python benchmarks/filters.py --lance    # results/filters_lance.csv
    python benchmarks/filters.py --picture docs/images/databases.png    # from the rows of --lance
    python benchmarks/filters.py --quick    # 30,000 x 32
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np
from _report import RESULTS, folder_mib, median_seconds, options_of, timed, write_table
from search import make_vectors

import tfdml

K, CHOSEN = 10, 500


def built(vectors, folder, names):
    """Some kinds of index: name, index, setting that trades time for recall, seconds of its build, MiB in a folder."""
    kinds = {
        "exact": (lambda: tfdml.search.Exact(vectors), None),
        "scann": (lambda: tfdml.search.Scann(vectors, method="partitioned"), "leaves_to_search"),
        "scann, soar": (lambda: tfdml.search.Scann(vectors, method="partitioned", soar=1.5), "leaves_to_search"),
        "faiss cells": (lambda: tfdml.search.Faiss(vectors, method="partitioned"), "leaves_to_search"),
        "faiss graph": (lambda: tfdml.search.Faiss(vectors, method="graph"), "rescore"),
        "lance": (
            lambda: tfdml.search.Lance(vectors, path=folder / "a.lance", metric="cosine", method="partitioned"),
            "leaves_to_search",
        ),
    }
    for name in names:
        build, setting = kinds[name]
        index, seconds, _ = timed(build)
        index.save(folder / name)
        yield name, index, setting, seconds, folder_mib(folder / name)


def tune(index, setting, queries, exact, mask, recall):
    """Set the smallest effort, doubled from the least, whose recall on the queries is reached."""
    effort, most = (1, index.leaves) if setting == "leaves_to_search" else (K, len(index))
    while True:
        setattr(index, setting, effort)
        if effort == most or tfdml.search.neighbor_recall(index.search(queries, K, where=mask)[0], exact) >= recall:
            return effort
        effort = min(most, 2 * effort)


def rows_of(options, folder):
    """Rows of the table, for each filter and recall one per kind."""
    rows, dim = options.rows, options.dim
    vectors, queries = make_vectors(rows, dim, 1), make_vectors(2 * CHOSEN + options.queries, dim, 2)
    choose, report, many = queries[:CHOSEN], queries[CHOSEN : 2 * CHOSEN], queries[2 * CHOSEN :]
    order = np.random.default_rng(options.seed).permutation(rows)
    indexes = list(built(vectors, folder, options.kinds))
    exact = indexes[0][1]
    for share in options.shares:
        mask = order < round(share * rows) if share < 1 else None
        expected = {name: exact.search(x, K, where=mask)[0] for name, x in {"choose": choose, "report": report}.items()}
        for wanted in options.recall:
            efforts = {
                name: "" if setting is None else tune(index, setting, choose, expected["choose"], mask, wanted)
                for name, index, setting, *_ in indexes
            }
            searches = {
                name: lambda index=index, mask=mask: index.search(many, K, where=mask) for name, index, *_ in indexes
            }
            seconds = median_seconds(searches, repeats=options.repeats)
            for name, index, _, build_s, mib in indexes:
                recall = tfdml.search.neighbor_recall(index.search(report, K, where=mask)[0], expected["report"])
                speed = {
                    "queries_per_second": len(many) / seconds[name],
                    "over_exact": seconds["exact"] / seconds[name],
                }
                settings = {"share": share, "effort": efforts[name], "wanted": wanted, f"recall@{K}": recall}
                facts = {"build_s": build_s, "mib": mib}
                yield {"rows": rows, "dim": dim, "way": name, **settings, **speed, **facts}


def draw(rows, path):
    """Bars of queries per second of each kind of index: a panel for each share, a color for each wanted recall."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shares, ways = (list(dict.fromkeys(row[name] for row in rows)) for name in ("share", "way"))
    figure, axes = plt.subplots(1, len(shares), figsize=(10, 2.8), sharey=True, layout="constrained")
    for axis, share in zip(axes, shares, strict=True):
        for number, wanted in enumerate(dict.fromkeys(row["wanted"] for row in rows)):
            chosen = [row for row in rows if (row["share"], row["wanted"]) == (share, wanted)]
            places = [ways.index(row["way"]) + 0.4 * number - 0.2 for row in chosen]
            heights = [float(row["queries_per_second"]) for row in chosen]
            axis.bar(places, heights, 0.38, label=f"recall {wanted}")
        axis.set(title=f"{float(share):.0%} of the vectors pass", yscale="log")
        axis.set_xticks(range(len(ways)), ways)
    axes[0].set_ylabel("queries per second")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main():
    """Measure and write the table."""
    picture = {"type": Path, "help": "draw the rows of --lance, and measure nothing"}
    settings = {"dim": 96, "queries": 1_000, "recall": [0.9], "shares": [1.0, 0.5, 0.1, 0.01]}
    settings |= {"kinds": ["exact", "scann", "scann, soar", "faiss cells", "faiss graph"]}
    table, small = "filters.csv", {"rows": 30_000, "dim": 32, "queries": 200}
    if "--lance" in sys.argv:
        settings = {"dim": 128, "queries": 500, "recall": [0.9, 0.99], "shares": [1.0, 0.5, 0.01]}
        settings |= {"kinds": ["exact", "scann", "faiss cells", "lance"]}
        table = "filters_lance.csv"
    common = {"rows": 1_000_000, "repeats": 3, "seed": 0, "lance": False, "picture": picture}
    options = options_of(__doc__, table, **common, **settings, quick=small)
    if options.picture:
        with open(RESULTS / "filters_lance.csv") as file:
            return draw(list(csv.DictReader(file)), options.picture)
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(options, Path(folder))
        return write_table(options.output, rows, "scann", "faiss-cpu", *(["pylance"] if options.lance else []))


if __name__ == "__main__":
    main()
