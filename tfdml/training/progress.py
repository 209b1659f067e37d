"""History, best network and messages of a run, before training and after every epoch."""

import csv
import io
import math
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import keras

from tfdml._core.atomic import atomic_write
from tfdml._core.terminal import show_progress, visible
from tfdml.callbacks.base import non_finite_variable
from tfdml.zoo.publishing import bare

METRICS = {"map@r": "MAP@R", "mrr": "MRR"}  # that choose the best epoch
_COLUMNS = ("epoch", "seconds", "loss", "learning_rate")


class History:
    """Values of the epochs of a run, in `history.csv`; epoch 0 is the network before training.

    Rows of the file from epoch `num_epochs` on are dropped: the run resumes from an earlier checkpoint. `metric` of the
    validation part chooses the best epoch.
    """

    def __init__(self, path: Path, num_epochs: int = 0, metric: str = "map@r"):
        self.path, self.metric = path, metric
        self.rows: list[dict[str, str]] = []
        if num_epochs and path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                rows = [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]
            try:
                self.rows = [row for row in rows if int(row["epoch"]) <= num_epochs]
            except (KeyError, TypeError, ValueError) as error:
                expected = "a row per epoch with its number in the column epoch. Delete the file to go on without it"
                raise ValueError(f"Received a damaged {str(path)!r}, expected {expected}.") from error

    def append(self, values: Mapping[str, Any]) -> None:
        """Add an epoch, and write the file in one step."""
        self.rows.append({name: _text(value) for name, value in values.items()})
        names = dict.fromkeys([*_COLUMNS, *(name for row in self.rows for name in row)])
        text = io.StringIO()
        writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        with atomic_write(self.path) as new:
            new.write_text(text.getvalue(), encoding="utf-8")

    @property
    def seconds(self) -> float:
        """Seconds of all epochs."""
        return sum(float(row["seconds"]) for row in self.rows)

    @property
    def trained(self) -> list[dict[str, str]]:
        """The rows of the epochs from 1 on."""
        return [row for row in self.rows if row["epoch"] != "0"]

    @property
    def best(self) -> tuple[float, int]:
        """Highest value of the metric and its epoch, the first of several; 0 if none reaches that before training."""
        return max(self._best(self.trained), self._best(self.rows))

    @property
    def best_trained(self) -> int:
        """The epoch from 1 with the highest value of the metric, the first of several; 0 without epochs."""
        return self._best(self.trained)[1]

    def _best(self, rows):
        """Highest value of the metric and the first epoch that has it; minus infinity and 0 without rows."""
        values = [(float(row.get(f"val_{self.metric}") or "-inf"), -int(row["epoch"])) for row in rows]
        value, epoch = max(values, default=(-math.inf, 0))
        return value, -epoch

    def scores(self, logs: Mapping[str, float]) -> str:
        """Recall@1 and the metric of the validation part as a text."""
        value, name = logs[f"val_{self.metric}"], METRICS[self.metric]
        return f"Recall@1 {100 * logs['val_recall@1']:5.1f}  {name} {100 * value:5.1f}"


def _text(value):
    return repr(round(value, 6)) if isinstance(value, float) else str(value)


class KeepBest(keras.callbacks.Callback):
    """Write the history after every epoch, and the network after the best ones; say how the run goes.

    List it after the evaluation, and before the checkpoint: a run that dies between them trains the epoch again. The
    best network is saved without the state of the optimizer. The run ends before an epoch that would exceed
    `max_seconds`.
    """

    def __init__(self, history: History, path: Path, max_seconds: float | None, log: Callable[[str], None]):
        super().__init__()
        self.history, self.path, self.max_seconds, self.log = history, path, max_seconds, log
        self._has_compiled = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Begin to measure."""
        self._begin = time.monotonic()
        self._step_ends: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Draw the bar of the epoch on a terminal."""
        self._step_ends.append(time.monotonic())
        show_progress("training", batch + 1, self.params["steps"])

    def _next_epoch(self, seconds):
        """Seconds that the next epoch will take: as many as this one, but for a first step that compiled."""
        if self._has_compiled or not self._step_ends:
            return seconds
        self._has_compiled = True
        first, last = self._step_ends[0], self._step_ends[-1]
        other_steps = len(self._step_ends) - 1
        return seconds - (first - self._begin) + ((last - first) / other_steps if other_steps else 0.0)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keep the epoch, and the network if it is the best one."""
        logs = dict(logs or {})
        seconds = time.monotonic() - self._begin
        self.history.append({"epoch": epoch + 1, "seconds": seconds, **logs})
        best_epoch = self.history.best[1]
        if self.history.best_trained == epoch + 1 and non_finite_variable(self.model) is None:
            with atomic_write(self.path) as new:
                bare(self.model).save(new)
        next_epoch = self._next_epoch(seconds)
        left = next_epoch * (self.params["epochs"] - epoch - 1)
        self.log(
            f"epoch {epoch + 1:3} of {self.params['epochs']}  loss {logs['loss']:.4f}  "
            f"{self.history.scores(logs)}  best {f'epoch {best_epoch}' if best_epoch else 'before training'}"
            f"  {clock(left)} left"
        )
        if left and self.max_seconds is not None and self.history.seconds + next_epoch > self.max_seconds:
            self.log(f"The next epoch would exceed {clock(self.max_seconds)}: training ends.")
            self.model.stop_training = True


class Stages:
    """Say each stage of a work as it begins, by its number, and all shares of the time at the end."""

    def __init__(self, total: int, log: Callable[[str], None]):
        self.total, self.log = total, log
        self._begun: list[tuple[str, float]] = []

    def begin(self, name: str, what: str = "") -> None:
        """Say that the next stage begins, with `what` it does behind its name."""
        self._begun.append((name, time.monotonic()))
        self.log(f"  {len(self._begun)} of {self.total}: {name} {what}".rstrip())

    def end(self) -> None:
        """Say the time of all stages, and the share of each."""
        names, begins = zip(*self._begun, strict=True)
        seconds = [after - begin for begin, after in pairwise([*begins, time.monotonic()])]
        whole = max(sum(seconds), 1e-9)
        shares = (f"{name} {100 * spent / whole:.0f}%" for name, spent in zip(names, seconds, strict=True))
        self.log(f"  {clock(sum(seconds))} in all: {', '.join(shares)}")


def print_line(text: str) -> None:
    """Print a line of progress on standard error."""
    print(visible(text), file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Minutes and seconds, such as 3:05."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
