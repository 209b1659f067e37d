"""Functions as tasks: their order, their errors, and processes that end."""

import os
import re

import pytest

from tfdml.distributed.cluster import require_room, results

pytestmark = pytest.mark.slow


def add(shared, number):
    return shared + number


def fail(shared, number):
    if number == 3:
        raise KeyError(f"task {number}")
    return number


def end(shared, number):
    os._exit(1)


def test_results_come_in_the_order_of_the_tasks(cluster):
    tasks = [(number,) for number in range(11)]
    assert list(results(add, tasks, label="numbers", shared=100)) == list(range(100, 111))
    assert list(results(add, [], label="numbers", shared=100)) == []


def test_the_error_of_a_task_is_raised_as_it_was(cluster):
    numbers = results(fail, [(number,) for number in range(6)], label="numbers")
    assert [next(numbers) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="task 3"):
        next(numbers)


def test_a_task_whose_process_ends_each_time_is_named(cluster):
    message = "numbers 0 of 1, whose process or node ended 4 times, or could not begin (WorkerCrashedError)"
    with pytest.raises(RuntimeError, match=re.escape(message)):
        list(results(end, [(0,)], label="numbers"))


def test_room_is_looked_for_on_one_node(cluster):
    require_room(2)
    with pytest.raises(ValueError, match="3 cpus, 0 gpus and 0 bytes for a task, expected"):
        require_room(3)
