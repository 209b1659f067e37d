"""When an evaluation is due: every few epochs, within a share of the time of `fit`."""

import pytest

from tests.callbacks.small import PART
from tests.worlds import Pixels
from tfdml import callbacks


class Clock:
    """A clock that only moves when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now

    def takes(self, seconds, result=None):
        self.now += seconds
        return result


@pytest.fixture
def clock(monkeypatch):
    """The clock of `fit`, on which an epoch takes as long as `Epochs` says, and nothing else takes time."""
    clock = Clock()
    monkeypatch.setattr("tfdml.callbacks.base.time.monotonic", clock)
    return clock


def logs_of_epochs(evaluation, clock, epochs, seconds):
    """The logs of a run whose epochs take some seconds."""
    evaluation.set_params({"epochs": epochs})
    evaluation.on_train_begin()
    logs = [{} for _ in range(epochs)]
    for epoch in range(epochs):
        clock.takes(seconds)
        evaluation.on_epoch_end(epoch, logs[epoch])
    return logs


def evaluated(logs, key="val_n"):
    """The epochs, from 1, whose logs have a key."""
    return [epoch for epoch, found in enumerate(logs, start=1) if key in found]


def slow(clock, seconds, **options):
    """An evaluation that takes some seconds."""
    evaluation = callbacks.RetrievalEvaluation(PART, k=1, metrics=lambda *_: clock.takes(seconds, {"n": 1}), **options)
    evaluation.set_model(Pixels())
    return evaluation


def test_evaluation_waits_until_it_takes_no_more_than_its_share(clock):
    # Epochs of 10 s, evaluations of 4 s, a share of 0.2. The first: 4 of 14 s. Another one would make 8 / 28 after
    # epoch 2, 8 / 38 after 3, and 8 / 48 after 4, the first share of at most 0.2. Then 12 / 62 after 5 is 0.19, 16 / 76
    # after 6 is 0.21, and 16 / 86 after 7 is 0.19. The last one, after 8, makes 20 / 100.
    logs = logs_of_epochs(slow(clock, 4, max_time_fraction=0.2), clock, 8, seconds=10)
    assert evaluated(logs) == [1, 4, 5, 7, 8]
    expected = [4 / 14, 4 / 24, 4 / 34, 8 / 48, 12 / 62, 12 / 72, 16 / 86, 20 / 100]
    assert [found["val_time_fraction"] for found in logs] == pytest.approx(expected)


def test_a_share_and_every_both_hold(clock):
    assert evaluated(logs_of_epochs(slow(clock, 1, max_time_fraction=0.9, every=3), clock, 7, seconds=1)) == [
        1,
        3,
        6,
        7,
    ]
    assert evaluated(logs_of_epochs(slow(clock, 1, max_time_fraction=0.2, every=3), clock, 7, seconds=1)) == [1, 7]


def test_time_is_measured_anew_in_each_run(clock):
    evaluation = slow(clock, 1, max_time_fraction=0.01)
    for _ in range(2):
        logs = logs_of_epochs(evaluation, clock, 3, seconds=1)
        assert evaluated(logs) == [1, 3]
        assert [found["val_time_fraction"] for found in logs] == pytest.approx([1 / 2, 1 / 3, 2 / 5])
        clock.takes(1000)
