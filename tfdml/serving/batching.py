"""Work of concurrent requests: batches, turns, and threads."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any


async def in_thread(pool: Executor, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a thread of a pool.

    For a request that is given up, the function does not begin; if it has begun, the request lasts until it is done,
    because a thread cannot be stopped.
    """
    running = pool.submit(function, *arguments)
    done = asyncio.wrap_future(running)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if not running.cancel():
            await asyncio.wait([done])
        raise


async def all_of(calls: Iterable[Awaitable[Any]]) -> list[Any]:
    """Run calls at the same time and wait for all of them; the results, or the first error."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


class Turns:
    """Calls a function for the items of concurrent requests in threads, for one item of each request in turn.

    A request uses all threads but one, so other requests always find one.
    """

    def __init__(self, function: Callable[[Any], Any], threads: int):
        self._function, self._most = function, max(1, threads - 1)
        self._pool, self._free = ThreadPoolExecutor(threads, "files"), asyncio.Semaphore(threads)

    def of_request(self) -> Callable[[Any], Awaitable[Any]]:
        """The function for the items of one request."""
        semaphore, turn = asyncio.Semaphore(self._most), asyncio.Lock()

        async def call(item):
            async with semaphore:
                async with turn:  # one item of the request waits in the line
                    await self._free.acquire()
                try:
                    return await in_thread(self._pool, self._function, item)
                finally:
                    self._free.release()

        return call

    def close(self) -> None:
        """End the threads once their current work is done."""
        self._pool.shutdown(cancel_futures=True)


class Batcher:
    """Runs a function on the items of concurrent requests together, in a thread.

    An idle batcher starts at once. While a batch runs, items gather, and the next batch takes up to `max_items` of them
    in the order of their arrival. Items whose request was given up are left out. A batch that fails is divided, so that
    an item fails only if the function fails for it alone.
    """

    def __init__(self, function: Callable[[list[Any]], list[Any]], max_items: int, pool: Executor):
        self._function, self._max_items, self._pool = function, max_items, pool
        self._waiting: deque[tuple[Any, asyncio.Future]] = deque()
        self._worker: asyncio.Task | None = None

    async def __call__(self, items: Iterable[Any]) -> list[Any]:
        """Results of the items, or what the function raised for one of them alone."""
        loop = asyncio.get_running_loop()
        waiting = [(item, loop.create_future()) for item in items]
        self._waiting.extend(waiting)
        if self._worker is None:
            self._worker = loop.create_task(self._work())
        return await asyncio.gather(*(future for _, future in waiting))

    async def _work(self):
        while batch := self._next_batch():
            items, futures = zip(*batch, strict=True)
            _resolve(futures, await self._results(list(items)))
        self._worker = None

    def _next_batch(self):
        batch = []
        while self._waiting and len(batch) < self._max_items:
            item, future = self._waiting.popleft()
            if not future.done():  # its request was given up
                batch.append((item, future))
        return batch

    async def _results(self, items):
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._function, items)
        except Exception as error:  # of the model or the index: the server continues
            return [error] if len(items) == 1 else await self._results_of_halves(items)

    async def _results_of_halves(self, items):
        half = len(items) // 2
        return [*await self._results(items[:half]), *await self._results(items[half:])]


def _resolve(futures, results):
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
