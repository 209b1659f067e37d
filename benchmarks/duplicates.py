"""Seconds to find all near-duplicates of a set, approximately with a bound on the recall, and exactly.

The vectors vary in few directions, as trained embeddings do: points around many centers in a space of 32 dimensions,
mapped into 128, with noise in all of them. A twentieth of them are noisy copies of others. Both joins find pairs of
a cosine similarity of at least 0.95 and verify each pair exactly. The approximate one bounds its recall by a sample of
4,096 rows; here, the share of the exact pairs that it returned is beside it. Seconds on the clock depend on what else
the machine does, processor seconds of all threads hardly do.

    python benchmarks/duplicates.py            # 200,000 x 128
    python benchmarks/duplicates.py --quick    # 20,000 x 32
"""

import argparse
import time

import numpy as np
from _report import RESULTS, print_table, write_csv

import tfdml

COLUMNS = ["rows", "dim", "way", "pairs", "share_of_exact", "recall_lower", "sampled_rows", "wall_s", "processor_s"]


def make_vectors(rows, dim, seed):
    """`(rows, dim)` float32 around 2,000 centers, a twentieth of them noisy copies."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((2_000, 32), dtype=np.float32)
    to_all = rng.standard_normal((32, dim), dtype=np.float32) / np.float32(32**0.5)
    inner = centers[rng.integers(len(centers), size=rows)] + 0.6 * rng.standard_normal((rows, 32), dtype=np.float32)
    vectors = inner @ to_all + 0.1 * rng.standard_normal((rows, dim), dtype=np.float32)
    copied, originals = rng.permutation(rows)[: rows // 10].reshape(2, -1)
    noise = rng.uniform(0.05, 0.25, (len(copied), 1)).astype(np.float32)
    vectors[copied] = vectors[originals] + noise * rng.standard_normal((len(copied), dim), dtype=np.float32)
    return vectors


def timed(function):
    """The result of a function, its seconds on the clock and its processor seconds."""
    begin, processor = time.perf_counter(), time.process_time()
    return function(), time.perf_counter() - begin, time.process_time() - processor


def rows_of(options):
    """Rows of the table, one per way."""
    rows, dim = (20_000, 32) if options.quick else (options.rows, options.dim)
    vectors = make_vectors(rows, dim, options.seed)
    joins = {
        way: timed(lambda is_near=way == "near cells": tfdml.search.similar_pairs(vectors, 0.95, approximate=is_near))
        for way in ("near cells", "exact")
    }
    exact = set(map(tuple, joins["exact"][0].rows.tolist()))
    for way, (pairs, wall, processor) in joins.items():
        recall = pairs.recall or (None, None, None)
        share = sum(tuple(pair) in exact for pair in pairs.rows.tolist()) / len(exact)
        seconds = {"wall_s": round(wall, 1), "processor_s": round(processor, 1)}
        sampled = {"recall_lower": recall[2], "sampled_rows": recall[0]}
        yield {
            "rows": rows,
            "dim": dim,
            "way": way,
            "pairs": len(pairs.rows),
            "share_of_exact": share,
            **sampled,
            **seconds,
        }


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default=RESULTS / "duplicates.csv")
    options = parser.parse_args()
    about = tfdml.environment()
    rows = [row | about for row in rows_of(options)]
    print_table(rows, COLUMNS)
    write_csv(options.output, rows)


if __name__ == "__main__":
    main()
