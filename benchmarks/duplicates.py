"""Seconds to find all near-duplicates of a set, approximately with a bound on the recall, and exactly.

The vectors vary in few directions, as trained embeddings do: points around many centers in a space of 32 dimensions,
mapped into 128, with noise in all of them. A twentieth of them are noisy copies of others. Both joins find pairs of
a cosine similarity of at least 0.95 and verify each pair exactly. The approximate one bounds its recall by a sample of
4,096 rows; here, the share of the exact pairs that it returned is beside it. Seconds on the clock depend on what else
the machine does, processor seconds of all threads hardly do.

    python benchmarks/duplicates.py            # 200,000 x 128
    python benchmarks/duplicates.py --quick    # 20,000 x 32
"""

import numpy as np
from _report import options_of, timed, write_table

import tfdml


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


def rows_of(options):
    """Rows of the table, one per way."""
    vectors = make_vectors(options.rows, options.dim, options.seed)
    joins = {
        way: timed(lambda is_near=way == "near cells": tfdml.search.similar_pairs(vectors, 0.95, approximate=is_near))
        for way in ("near cells", "exact")
    }
    exact = set(map(tuple, joins["exact"][0].rows.tolist()))
    for way, (pairs, wall, processor) in joins.items():
        recall = pairs.recall or (None, None, None)
        share = sum(tuple(pair) in exact for pair in pairs.rows.tolist()) / len(exact)
        found = {
            "pairs": len(pairs.rows),
            "share_of_exact": share,
            "recall_lower": recall[2],
            "sampled_rows": recall[0],
        }
        seconds = {"wall_s": round(wall, 1), "processor_s": round(processor, 1)}
        yield {"rows": options.rows, "dim": options.dim, "way": way, **found, **seconds}


def main():
    """Measure and write the table."""
    options = options_of(__doc__, "duplicates.csv", rows=200_000, dim=128, seed=0, quick={"rows": 20_000, "dim": 32})
    write_table(options.output, rows_of(options))


if __name__ == "__main__":
    main()
