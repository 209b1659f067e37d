"""Items of concurrent requests run together."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfdml.serving.batching import Batcher, Turns, all_of


class Doubling:
    """Twice each number. A batch waits until the test lets it go; a negative number fails its batch."""

    def __init__(self):
        self.batches, self.started, self.go = [], threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, items):
        self.batches.append(items)
        self.started.release()
        self.go.acquire(timeout=10)
        if min(items) < 0:
            raise ArithmeticError("negative")
        return [2 * item for item in items]


def run(story, max_items=3):
    """Runs `story(batcher, function)` in an event loop."""
    function = Doubling()

    async def told():
        with ThreadPoolExecutor(1) as pool:
            await story(Batcher(function, max_items, pool), function)

    asyncio.run(told())
    return function.batches


async def first_batch(function):
    await asyncio.get_running_loop().run_in_executor(None, function.started.acquire)


def test_an_item_does_not_wait_for_others_and_those_that_gather_meanwhile_run_together():
    async def story(batcher, function):
        first = asyncio.create_task(batcher([1]))
        await first_batch(function)
        others = []
        for items in ([2], [3, 4], [5]):
            others.append(asyncio.create_task(batcher(items)))
            await asyncio.sleep(0.01)
        function.go.release(9)
        assert await first == [2]
        assert await asyncio.gather(*others) == [[4], [6, 8], [10]]
        assert await batcher([6]) == [12]
        assert await batcher([]) == []

    assert run(story) == [[1], [2, 3, 4], [5], [6]]


def test_items_of_requests_that_were_given_up_are_left_out():
    async def story(batcher, function):
        first = asyncio.create_task(batcher([1]))
        await first_batch(function)
        gone, kept = asyncio.create_task(batcher([2, 3])), asyncio.create_task(batcher([4]))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        function.go.release(9)
        assert await kept == [8]
        assert await first == [2]
        with pytest.raises(asyncio.CancelledError):
            await gone

    assert run(story) == [[1], [4]]


def test_a_request_that_is_given_up_while_its_batch_runs_leaves_the_others_their_results():
    async def story(batcher, function):
        first = asyncio.create_task(batcher([1]))
        await first_batch(function)
        first.cancel()
        second = asyncio.create_task(batcher([2]))
        function.go.release(9)
        assert await second == [4]

    assert run(story) == [[1], [2]]


def test_an_item_that_fails_leaves_the_others_of_its_batch_their_results():
    async def story(batcher, function):
        first = asyncio.create_task(batcher([0]))
        await first_batch(function)
        requests = [asyncio.create_task(batcher(items)) for items in ([1], [-1, 2], [3], [-2], [4])]
        await asyncio.sleep(0.01)
        function.go.release(99)
        found = await asyncio.gather(*requests, return_exceptions=True)
        assert [found[0], found[2], found[4]] == [[2], [6], [8]]
        assert [str(found[place]) for place in (1, 3)] == ["negative", "negative"]
        assert await first == [0]
        assert await batcher([1]) == [2]

    assert run(story, max_items=6)[1] == [1, -1, 2, 3, -2, 4]


def test_requests_take_turns_and_leave_a_thread_to_the_next():
    async def story(threads, started):
        function = Doubling()
        turns = Turns(lambda item: function([item])[0], threads)
        first = asyncio.create_task(all_of(map(turns.of_request(), range(10, 14))))
        while len(function.batches) < started:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(all_of(map(turns.of_request(), range(20, 23))))
        await asyncio.sleep(0.05)
        begun = [item for (item,) in function.batches]
        function.go.release(99)
        assert (await first, await second) == ([20, 22, 24, 26], [40, 42, 44])
        turns.close()
        return begun, [item for (item,) in function.batches]

    begun, order = asyncio.run(story(1, 1))
    assert (begun, order) == ([10], [10, 20, 11, 21, 12, 22, 13])
    begun, _ = asyncio.run(story(3, 2))
    assert begun == [10, 11, 20]


def test_a_request_that_is_given_up_begins_no_more_items_and_lasts_until_those_that_have_begun_are_done():
    async def story():
        function = Doubling()
        turns = Turns(lambda item: function([item])[0], 3)
        request = asyncio.create_task(all_of(map(turns.of_request(), range(9))))
        while len(function.batches) < 2:
            await asyncio.sleep(0.01)
        request.cancel()
        await asyncio.sleep(0.05)
        assert not request.done()
        function.go.release(99)
        with pytest.raises(asyncio.CancelledError):
            await request
        assert await turns.of_request()(7) == 14
        turns.close()
        assert function.batches == [[0], [1], [7]]

    asyncio.run(story())
