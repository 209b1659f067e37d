"""Ray, and functions that run as its tasks."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml._core.terminal import show_progress

_QUEUED = 2  # tasks per core that wait or run, so that arguments and results of few are in memory
RETRIES = 3  # of a task or an actor whose node or process dies
Resources: TypeAlias = Mapping[str, float]
"""What a task or an actor takes of a node: `{"num_cpus": 2, "num_gpus": 1, "memory": 2**30}`, as options of Ray."""
_OF_NODES = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}


def connected() -> Any:
    """The package Ray, connected to the cluster of `RAY_ADDRESS`, or else to a new one of this machine."""
    ray = optional_import("ray", feature="tfdml.distributed", extra="ray")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return ray


def claimed(resources: Resources | None) -> dict[str, float]:
    """The resources of a task or an actor, one processor by default; a ValueError for more than any node has."""
    claims = {"num_cpus": 1, **(resources or {})}
    known = set(claims) <= set(_OF_NODES) and all(amount >= 0 for amount in claims.values())
    require(known, f"resources={resources}", f"{', '.join(_OF_NODES)}, with amounts of 0 or more")
    nodes = [node["Resources"] for node in connected().nodes() if node["Alive"]]
    fits = any(all(node.get(_OF_NODES[name], 0) >= amount for name, amount in claims.items()) for node in nodes)
    largest = {name: max((node.get(_OF_NODES[name], 0) for node in nodes), default=0) for name in claims}
    require(fits, f"resources={claims} for a task", f"at most {largest}, as one node has. Start larger nodes")
    return claims


def num_parallel_tasks(claims: dict[str, float]) -> int:
    """The number of tasks that the processors of the cluster run at the same time, at least one."""
    return max(1, int(connected().cluster_resources().get("CPU", 1) / max(claims["num_cpus"], 1)))


def results(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    label: str,
    shared: Any = None,
    resources: Resources | None = None,
) -> Iterator[Any]:
    """The results of a function for all tasks, in their order; each runs as a task of Ray.

    The function gets `shared`, sent to each node once, and the arguments of a task. A task whose node dies runs again
    elsewhere, up to three times, and is then a RuntimeError; it raises the first other error.
    """
    ray = connected()
    claims = claimed(resources)
    remote = ray.remote(function).options(max_retries=RETRIES, **claims)
    shared_reference = ray.put(shared)
    limit = _QUEUED * num_parallel_tasks(claims)
    running: deque[Any] = deque()
    try:
        for number in range(len(tasks)):
            while len(running) < limit and number + len(running) < len(tasks):
                running.append(remote.remote(shared_reference, *tasks[number + len(running)]))
            yield _result(ray, running.popleft(), f"{label} {number} of {len(tasks)}")
            show_progress(label, number + 1, len(tasks))
    finally:
        for reference in running:  # after an error
            ray.cancel(reference)


def _result(ray, reference, name):
    """The result of a task; it raises an error of the task itself unchanged."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise ended(name, error) from error


def ended(name: str, error: Exception) -> RuntimeError:
    """The error of a task or an actor whose process or node ended each time."""
    reason = next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), "")
    received = f"{name}, whose process or node ended {RETRIES + 1} times, or could not begin ({type(error).__name__})"
    advice = "nodes that live, with enough memory. What is finished is kept: the same call goes on there"
    return RuntimeError(f"Received {received}, expected {advice}. The last line of its error: {reason}")
