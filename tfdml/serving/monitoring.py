"""Prometheus metrics of a server, and the table of its searches."""

import contextlib
import datetime
import errno
import os
import random
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector, exposition
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from tfdml._core.atomic import fcntl
from tfdml._core.checks import require
from tfdml.typing import FilePath

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # names the folder in which the processes of a server count; read at the import
_IMAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SCORES = tuple(number / 20 for number in range(-20, 21))  # of cosines
_RECALLS = tuple(number / 20 for number in range(21))
_BUDGET = 0.01  # of a core, for exact searches
_HEADER = b"time,score,unknown,recall\n"
_MAX_LINE = 256  # bytes


class Monitor:
    """Counters of one server: requests by route and status, images by result, "embedded" or "refused", and times.

    Searches of images are counted by the score of the nearest item, and appended to the table `log`.
    A server of several processes counts all of them; memory and CPU time have the label `pid`.
    """

    CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, log: FilePath | None = None) -> None:
        self._log = None if log is None else _SearchLog(log)
        registry, folder = CollectorRegistry(), os.environ.get(FOLDER)
        self._shown = registry if folder is None else CollectorRegistry()
        if folder is None:
            ProcessCollector(registry=registry)
        else:
            MultiProcessCollector(self._shown, folder)
            self._shown.register(_Processes(Path(folder)))
        active = "Requests being answered"
        self.requests = Counter("tfdml_requests", "Requests answered", ["route", "status"], registry=registry)
        self.seconds = Histogram("tfdml_request_seconds", "Time of a request", ["route"], registry=registry)
        self.active = Gauge("tfdml_requests_active", active, registry=registry, multiprocess_mode="sum")
        self.images = Counter("tfdml_images", "Images by result", ["result"], registry=registry)
        score = "Score of the nearest item of an image"
        self.best_score = Histogram("tfdml_search_best_score", score, buckets=_SCORES, registry=registry)
        self.unknown = Counter("tfdml_searches_unknown", "Searched images below the threshold", registry=registry)
        recall = "Share of the exact neighbors that a search found"
        self.recall = Histogram("tfdml_search_recall", recall, buckets=_RECALLS, registry=registry)
        self.batch_images = Histogram("tfdml_batch_images", "Images of a batch", buckets=_IMAGES, registry=registry)
        self.batch_seconds = Histogram("tfdml_batch_seconds", "Time of a batch", registry=registry)

    def count_searches(self, scores: Sequence[float], threshold: float | None, recall: float | str = "") -> None:
        """Count searches of images by the score of the nearest item; below a threshold, the image is unknown.

        `recall` is that of a search that was also made exactly.
        """
        for score in scores:
            self.best_score.observe(score)
            self.unknown.inc(threshold is not None and score < threshold)
        if self._log is not None and scores:
            self._log.append(scores, threshold, recall)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return exposition.generate_latest(self._shown)


class RecallCheck:
    """Makes a share of the searches again, exactly, in a thread of its own and after they are answered.

    A check that took t seconds is followed by none for t / 0.01 seconds, so that checks take 1% of a core at most.
    """

    def __init__(self, share: float):
        self._share, self._pool = share, ThreadPoolExecutor(1, "recall")
        self._begin, self.close = 0.0, partial(self._pool.shutdown, cancel_futures=True)

    def chosen(self, searches: int) -> int:
        """The number of a search to check, -1 for none."""
        is_due = random.random() < self._share * searches and time.monotonic() >= self._begin
        return random.randrange(searches) if is_due else -1

    def __call__(self, recall: Callable[[], float], count: Callable[[float | str], None]) -> None:
        """Compute the recall of a search, and count it; a search that cannot be made again is counted without one."""
        self._begin = float("inf")
        self._pool.submit(self._check, recall, count)

    def _check(self, recall, count):
        began, share = time.monotonic(), ""
        try:
            share = recall()
        except Exception as error:  # of the index: the server continues
            warnings.warn(f"The recall of a search is not known: {error}", stacklevel=1)
        finally:
            ended = time.monotonic()
            self._begin = ended + (ended - began) / _BUDGET
            count(share)


class _SearchLog:
    """A table that `tfdml drift` reads, and to which lines are appended, each time by one call of the system.

    Lines that cannot be written, because the disk is full, are lost with one warning, and no request fails for them.
    What was written of them is removed. A file that is moved away begins anew.
    """

    def __init__(self, path):
        self._path, self._fails = path, False
        with open(path, "a+b") as file:
            file.seek(0)
            begin = file.read(len(_HEADER))
        require(begin in (b"", _HEADER), f"the file {str(path)!r}", "a new file, or one that a server has written")
        self._write(b"")

    def append(self, scores, threshold, recall):
        """A line for each score."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        unknown = [int(score < threshold) if threshold is not None else "" for score in scores]
        lines = "".join(f"{now},{score:.6g},{mark},{recall}\n" for score, mark in zip(scores, unknown, strict=True))
        try:
            self._write(lines.encode())
        except OSError as error:
            if not self._fails:
                warnings.warn(f"{self._path}: searches are not logged: {error}", stacklevel=2)
            self._fails = True
        else:
            self._fails = False

    def _write(self, lines):
        with open(self._path, "a+b", buffering=0) as file:
            _lock(file)
            end = self._end(file)
            content = lines if end else _HEADER + lines
            try:
                if file.write(content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                with contextlib.suppress(OSError):  # no file, but a device
                    file.truncate(end)
                raise

    def _end(self, file):
        """The end of the last line. A part of a line behind it, left when a machine stopped, is removed."""
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MAX_LINE))
        tail = file.read(_MAX_LINE) if size else b""
        rest = len(tail) - tail.rfind(b"\n") - 1
        if rest:
            warnings.warn(f"{self._path}: the last line was cut, and is removed: {tail[-rest:]!r}", stacklevel=2)
            file.truncate(size - rest)
        return size - rest


def _lock(file):
    """Wait until no other process writes a file, until it is closed; where there are no locks, go on."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)


class _Processes(Collector):
    """Memory, CPU time and open files of each process that counts in a folder."""

    def __init__(self, folder: Path):
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        metrics: dict[str, Metric] = {}
        for pid in sorted({file.stem.rpartition("_")[2] for file in self._folder.glob("counter_*.db")}):
            for metric in ProcessCollector(pid=partial(str, pid), registry=None).collect():
                shown = metrics.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                for sample in metric.samples:
                    shown.add_sample(sample.name, {"pid": pid}, sample.value)
        return metrics.values()
