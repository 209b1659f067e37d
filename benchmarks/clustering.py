"""Clustering numbers of a whole test set: k-means, mini-batch k-means, and the scores of a clustering alone.

The largest set has the size of the test part of Stanford Online Products.

    python benchmarks/clustering.py            # seven minutes of processor time
    python benchmarks/clustering.py --quick    # small sizes
"""

from functools import partial

import numpy as np
from _report import options_of, timed, write_table
from retrieval import make_data
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from tfdml.metrics import clustering, clustering_scores

DATA = (
    {"rows": 10_000, "dim": 64, "classes": 10},
    {"rows": 6_000, "dim": 128, "classes": 1_131},
    {"rows": 60_000, "dim": 128, "classes": 11_316},
)
QUICK = ({"rows": 600, "dim": 16, "classes": 110},)


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


def row(data, name, way):
    """Seconds and numbers of one way."""
    found, clock, processor = timed(way)
    numbers = {number: found.get(number, "") for number in ("nmi", "ami", "f1")}
    return {**data, "way": name, "seed": 0, "restarts": 1, "seconds": clock, "cpu_seconds": processor, **numbers}


def main():
    """Measure every way on every set and write the table."""
    options = options_of(__doc__, "clustering.csv")
    sets = QUICK if options.quick else DATA
    rows = [row(data, *way) for data in sets for way in ways(*make_data(**data)).items()]
    write_table(options.output, rows, "scikit-learn")


if __name__ == "__main__":
    main()
