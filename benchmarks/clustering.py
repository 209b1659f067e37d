"""Clustering numbers of a whole test set: k-means, mini-batch k-means, and the scores of a clustering alone.

The largest set has the size of the test part of Stanford Online Products.

    python benchmarks/clustering.py            # seven minutes of processor time
    python benchmarks/clustering.py --quick    # small sizes
"""

import argparse
import time
from functools import partial

import numpy as np
from _report import RESULTS, print_table, today, write_csv
from retrieval import make_data
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

import tfdml
from tfdml.metrics import clustering, clustering_scores

DATA = (
    {"rows": 10_000, "dim": 64, "classes": 10},
    {"rows": 6_000, "dim": 128, "classes": 1_131},
    {"rows": 60_000, "dim": 128, "classes": 11_316},
)
QUICK = ({"rows": 600, "dim": 16, "classes": 110},)
COLUMNS = ["rows", "dim", "classes", "way", "seconds", "cpu_seconds", "nmi", "ami", "f1"]


def scikit_learn_scores(labels, clusters):
    """The two numbers of scikit-learn."""
    nmi = normalized_mutual_info_score(labels, clusters, average_method="geometric")
    return {"nmi": nmi, "ami": adjusted_mutual_info_score(labels, clusters)}


def ways(x, labels):
    """What is measured on one set, by name."""
    halves = np.random.default_rng(0).permutation(labels)
    clusters = np.where(np.arange(len(labels)) % 2, labels, halves)
    return {
        "k-means": partial(clustering, x, labels, mini_batch=False),
        "mini-batch k-means": partial(clustering, x, labels, mini_batch=True),
        "scores alone": partial(clustering_scores, labels, clusters),
        "scores of scikit-learn": partial(scikit_learn_scores, labels, clusters),
    }


def measure(way):
    """Seconds and numbers of one way."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = way()
    seconds = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    return {**seconds, **{name: found.get(name, "") for name in ("nmi", "ami", "f1")}}


def main():
    """Measure every way on every set and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default=RESULTS / "clustering.csv")
    arguments = parser.parse_args()
    about = {**tfdml.environment("scikit-learn"), "date": today()}
    rows = []
    for data in QUICK if arguments.quick else DATA:
        for way, function in ways(*make_data(**data)).items():
            rows.append({**data, "way": way, "seed": 0, "restarts": 1, **measure(function), **about})
            print_table(rows[-1:], COLUMNS)
    print_table(rows, COLUMNS)
    write_csv(arguments.output, rows)


if __name__ == "__main__":
    main()
