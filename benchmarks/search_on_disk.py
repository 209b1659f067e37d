"""Exact search in vectors on disk: time and peak memory of tfdml.search.search_on_disk.

The file is written once, in blocks, and kept for the next run if `--file` names it. The matrix product alone, of the
same blocks in memory, is a lower bound of every exact search. The peak counts the pages of the file that were mapped.

    python benchmarks/search_on_disk.py            # 10,000,000 x 64 float16, 1.2 GiB on disk, 1,000 queries
    python benchmarks/search_on_disk.py --quick    # 100,000 vectors
"""

import tempfile
from pathlib import Path

import numpy as np
from _report import options_of, peak_mib, timed, write_table
from threadpoolctl import threadpool_limits

import tfdml

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

    def products():
        for _ in range(0, rows, BLOCK):
            for start in range(0, len(queries), len(out)):
                part = queries[start : start + len(out)]
                np.matmul(part, block.T, out=out[: len(part)])

    with threadpool_limits(None, "blas"):
        return timed(products)[1]


def row(options, path):
    """The size, and what search in a file of vectors takes."""
    if not path.exists():
        write(path, options.rows, options.dim, options.dtype)
    queries = np.random.default_rng(2).standard_normal((options.queries, options.dim), dtype=np.float32)
    tfdml.search.search_on_disk(queries, queries[:2], 1)  # imports, thread pools
    start = peak_mib()
    _, clock, processor = timed(lambda: tfdml.search.search_on_disk(path, queries, options.k))
    size = {name: getattr(options, name) for name in ("rows", "dim", "dtype", "queries", "k")}
    memory = {"start_mib": start, "peak_mib": peak_mib()}
    product = product_seconds(queries, options.rows)
    return {**size, "seconds": clock, "cpu_seconds": processor, "product_s": product, **memory}


def main():
    """Measure and write the table."""
    sizes = {"rows": 10_000_000, "dim": 64, "dtype": "float16", "queries": 1_000, "k": 100}
    file = {"type": Path, "help": "where the vectors are kept; a temporary folder by default"}
    options = options_of(__doc__, "search_on_disk.csv", **sizes, file=file, quick={"rows": 100_000})
    with tempfile.TemporaryDirectory() as folder:
        write_table(options.output, [row(options, options.file or Path(folder) / "vectors.npy")])


if __name__ == "__main__":
    main()
