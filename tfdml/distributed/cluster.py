"""Ray, and functions that run as its tasks."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfdml._core.checks import require, require_whole
from tfdml._core.optional import optional_import
from tfdml._core.terminal import show_progress

_QUEUED = 2  # tasks per core that wait or run, so that arguments and results of few are in memory
RETRIES = 3  # of a task or an actor whose node or process dies


def connected() -> Any:
    """The package Ray, connected to the cluster of `RAY_ADDRESS`, or else to a new one of this machine.

    Raises:
        ImportError: Ray is not installed: `pip install tfdml[ray]`.
    """
    ray = optional_import("ray", feature="tfdml.distributed", extra="ray")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return ray


def require_room(cpus: float, gpus: float = 0, memory: int | None = None) -> None:
    """Raise a ValueError unless one node of the cluster has these resources: a task would wait for ever.

    Args:
        cpus, gpus: numbers, also parts of one.
        memory: bytes, or None.
    """
    wanted = {"CPU": cpus, "GPU": gpus, "memory": memory or 0}
    nodes = [node["Resources"] for node in connected().nodes() if node["Alive"]]
    largest = {name: max((node.get(name, 0) for node in nodes), default=0) for name in wanted}
    fits = any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes)
    received = f"{cpus:g} cpus, {gpus:g} gpus and {wanted['memory']:,} bytes for a task"
    expected = f"what one node has: at most {largest['CPU']:g}, {largest['GPU']:g} and {largest['memory']:,.0f}"
    require(fits, received, f"{expected}. Ask for less, or start larger nodes")


def results(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    label: str,
    shared: Any = None,
    cpus: float = 1,
    memory: int | None = None,
) -> Iterator[Any]:
    """The results of a function for all tasks, in their order; each runs as a task of Ray.

    A task whose node dies runs again elsewhere, up to three times. Progress is shown on a terminal.

    Args:
        function: gets `shared` and the arguments of a task.
        tasks: arguments of each call.
        label: what the tasks make, for messages and for progress.
        shared: an object that is sent to each node once.
        cpus, memory: what a task takes of a node.

    Yields:
        The results.

    Raises:
        Exception: the error of the first task that fails, as it raised it.
        RuntimeError: a task whose node or process died each time; it names the task.
        ValueError: no node has the resources.
    """
    ray = connected()
    require_whole("cpus", cpus, 1)
    require_room(cpus, memory=memory)
    options = {"num_cpus": cpus, "max_retries": RETRIES, "memory": memory}
    remote = ray.remote(function).options(**{name: value for name, value in options.items() if value is not None})
    shared_reference = ray.put(shared)
    limit = max(1, _QUEUED * int(ray.cluster_resources().get("CPU", 1) / cpus))
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
    """The result of a task; an error of the task itself is raised as the task raised it."""
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
