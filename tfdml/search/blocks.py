"""Blocks of queries against all vectors, in threads and bounded memory."""

import os
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
from threadpoolctl import threadpool_limits

MAX_BYTES = 512 * 2**20
_ROWS = 256  # With fewer queries per block, the matrix product packs the whole gallery too often.
_BLOCK = 64 * 2**20  # Bytes per block, where that is more queries: fewer switches between product and use.


def for_blocks(function, queries, columns, *, max_bytes=MAX_BYTES, row_bytes=0, thread_bytes=0, rows=None):
    """Call `function(rows, block)` for all queries, one block at a time, and yield the number of queries of each.

    `function` gets a slice of the queries and a `(rows, columns)` float32 array to fill and not to keep. Each core has
    a thread, and each thread one block of about 64 MiB, or 256 queries if that is more; `rows` is another largest
    number of queries. `max_bytes` bounds all blocks, `row_bytes` per query and `thread_bytes` per thread; a ValueError
    if not even one query per thread fits. Work starts with the first requested value.
    """
    threads = thread_count()
    row_bytes += 4 * columns
    preferred_rows = rows or max(_ROWS, _BLOCK // row_bytes)
    size = min(preferred_rows, (max_bytes // threads - thread_bytes) // row_bytes)
    if size < 1:
        needed = threads * (row_bytes + thread_bytes)
        raise ValueError(f"Received max_bytes={max_bytes}, expected at least {needed} for a gallery of {columns}.")
    buffers = SimpleQueue()
    for _ in range(threads):
        buffers.put(np.empty((min(size, queries), columns), np.float32))

    def run(block_rows):
        count = block_rows.stop - block_rows.start
        buffer = buffers.get()
        try:
            function(block_rows, buffer[:count])
        finally:
            buffers.put(buffer)
        return count

    yield from in_threads(run, slices(queries, size))


def in_threads(function, tasks):
    """Yield `function(task)` of all tasks in order, in one thread per core; a single task runs in the calling thread.

    The BLAS runs single-threaded, because BLAS threads that wait for the next product would occupy the cores.
    """
    tasks = list(tasks)
    if len(tasks) == 1:
        yield function(tasks[0])
        return
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(thread_count()) as pool:
        yield from pool.map(function, tasks)


def slices(count, size):
    """Slices of `size` or fewer that cover `count` rows, in order."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def thread_count():
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
