"""Exact search in vectors on disk: time and peak memory of tfdml.search.search_on_disk.

The file is written once, in blocks, and kept for the next run if `--file` names it. The matrix product alone, of the
same blocks in memory, is a lower bound of every exact search. The peak counts the pages of the file that were mapped.

    python benchmarks/search_on_disk.py            # 10,000,000 x 64 float16, 1.2 GiB on disk, 1,000 queries
    python benchmarks/search_on_disk.py --quick    # 100,000 vectors
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from _report import RESULTS, peak_mib, print_table, write_csv
from threadpoolctl import threadpool_limits

import tfdml

COLUMNS = ["rows", "dim", "dtype", "queries", "k", "seconds", "cpu_seconds", "product_s", "start_mib", "peak_mib"]
BLOCK = 2**16


def write(path, rows, dim, dtype):
    """A .npy file of random vectors, written without a memory map, whose pages would count as memory."""
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        form = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (rows, dim)}
        np.lib.format.write_array_header_1_0(file, form)
        for start in range(0, rows, BLOCK):
            file.write(rng.standard_normal((min(BLOCK, rows - start), dim), dtype=np.float32).astype(dtype).data)


def product_seconds(queries, rows):
    """Seconds of the matrix product of the queries with blocks of as many vectors."""
    block = np.random.default_rng(1).standard_normal((BLOCK, queries.shape[1]), dtype=np.float32)
    out = np.empty((256, BLOCK), np.float32)
    with threadpool_limits(None, "blas"):
        begin = time.perf_counter()
        for _ in range(0, rows, BLOCK):
            for start in range(0, len(queries), len(out)):
                part = queries[start : start + len(out)]
                np.matmul(part, block.T, out=out[: len(part)])
        return time.perf_counter() - begin


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--file", type=Path, help="where the vectors are kept; a temporary folder by default")
    parser.add_argument("--output", default=RESULTS / "search_on_disk.csv")
    options = parser.parse_args()
    rows = 100_000 if options.quick else options.rows
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "vectors.npy"
        if not path.exists():
            write(path, rows, options.dim, options.dtype)
        queries = np.random.default_rng(2).standard_normal((options.queries, options.dim), dtype=np.float32)
        tfdml.search.search_on_disk(queries, queries[:2], 1)  # imports, thread pools
        start, wall, cpu = peak_mib(), time.perf_counter(), time.process_time()
        tfdml.search.search_on_disk(path, queries, options.k)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    size = {"rows": rows, "dim": options.dim, "dtype": options.dtype, "queries": options.queries, "k": options.k}
    memory = {"start_mib": start, "peak_mib": peak_mib()}
    times = {"seconds": wall, "cpu_seconds": cpu, "product_s": product_seconds(queries, rows)}
    rows = [{**size, **times, **memory, **tfdml.environment()}]
    print_table(rows, COLUMNS)
    write_csv(options.output, rows)


if __name__ == "__main__":
    main()
