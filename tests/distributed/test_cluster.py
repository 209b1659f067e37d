"""Functions as tasks: their order, their errors, and processes that end."""

import os
import re

import pytest

from tests.distributed.embedded import shards
from tfdml import distributed
from tfdml.distributed.cluster import claimed, results

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


@pytest.mark.parametrize("resources", [{"num_cpus": 3}, {"num_gpus": 1}, {"memory": 2**50}])
def test_resources_that_no_node_has_are_refused(cluster, tmp_path, resources):
    assert claimed({"num_cpus": 2}) == {"num_cpus": 2}
    calls = (
        lambda: list(results(add, [(1,)], label="numbers", resources=resources)),
        lambda: distributed.SearchActors("missing", resources=resources),
        lambda: shards(tmp_path / "embedded", resources=resources),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"for a task, expected at most .* as one node has"):
            call()


@pytest.mark.parametrize("resources", [{"cpus": 1}, {"num_cpus": -1}])
def test_unknown_resources_and_negative_amounts_are_errors(cluster, resources):
    with pytest.raises(ValueError, match="expected num_cpus, num_gpus, memory, with amounts of 0 or more"):
        claimed(resources)
