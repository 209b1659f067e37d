"""The studies of verification: their page, and what they make of a few short runs."""

import pytest

from studies import runner
from studies.verification import curves, losses, setting


def result_of(run):
    """An invented result: accuracy rises, and the threshold depends on the batches."""
    decided = [{"accuracy": 0.9 + point / 200, "threshold": 1 + run.per_class / 100} for point in range(10)]
    about = {"core_seconds": 1.0, "protocol": "invented", "hardware": "none", "versions": "none"}
    return {"run": vars(run), "curve": decided, "test": decided[-1], **about}


@pytest.fixture
def options(tmp_path, monkeypatch):
    made = setting.options(tmp_path)
    return runner.Options(made.base, result_of, tmp_path, rates=made.rates, seeds=(1, 2), workers=1)


def test_curves_have_a_row_per_run_and_point_and_a_picture(options, tmp_path):
    rows = curves.rows(options)
    assert len(rows) == 7 * 2 * 10
    assert [row["step"] for row in rows[:10]] == list(range(30, 301, 30))
    table = curves.tables(rows)["curves"]
    assert "| margin, distance weighted | 2 | 91.5 ± 0.0 | 94.5 ± 0.0 | 1.020 ± 0.000 |" in table
    curves.draw(tmp_path / "curves.png", rows)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_losses_are_measured_on_test_classes(options):
    table = losses.tables(losses.rows(options))["losses"]
    assert "| N-pairs | 320 | 0.003 | 94.50 | [94.50, 94.50] |" in table


@pytest.mark.slow
@pytest.mark.parametrize("loss", setting.LOSSES)
def test_a_run_measures_validation_and_test_pairs(loss):
    result = setting.train(setting.Run(loss=loss, steps=10, classes=20))
    assert len(result["curve"]) == 10
    assert 0.5 < result["test"]["accuracy"] < 1
    assert 0 <= result["test"]["threshold"] <= 2
