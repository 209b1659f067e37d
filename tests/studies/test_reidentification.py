"""The studies of re-identification: what they train, what is chosen, and their tables."""

import csv
import json
import zlib
from dataclasses import asdict, replace

import pytest

from recipes import reidentification as recipe
from studies import __main__ as command
from studies import pages, reidentification, runner
from studies.reidentification import choice, setting, vehicles

FOLDER = pages.RESULTS / "reidentification"
RUN = setting.Run()


ABOUT = {"core_seconds": 1.0, "hardware": "2 cores", "versions": "keras 3.15.1"}


def number(run, settings=""):
    """In (0, 1); the settings decide."""
    return (1 + zlib.crc32(f"{runner.name_of(run)} {settings}".encode()) % 999) / 1000


def invented(run):
    """The results of a run of characters by its refinements."""
    scores = [
        {"refinement": name, "settings": json.dumps(settings), "queries": 5, "skipped": 0}
        | dict.fromkeys(["cmc@1", "cmc@5", "cmc@10", "map"], number(run, settings))
        for name, settings in setting.measurements(run)
    ]
    return {"run": asdict(run), "scores": scores, "protocol": run.part, **ABOUT}


def driven(run):
    """The results of a vehicle network."""
    scores = dict.fromkeys(["cmc@1", "cmc@5", "map"], number(run))
    return {"run": asdict(run), "scores": scores, "protocol": run.part, **ABOUT}


def test_a_quick_run_leaves_rows_and_a_page_of_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(setting, "train", invented)
    monkeypatch.setattr(vehicles, "train", driven)
    command.main(["reidentification", "--quick", "--output", str(tmp_path)])
    for name in reidentification.STUDIES:
        rows = list(csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines()))
        assert {row["steps"] for row in rows} == {"10"}
    page = (tmp_path / "reidentification.md").read_text()
    tested = runner.where(runner.read_rows(tmp_path / "refinements.csv"), loss="batch hard", refinement="both")
    assert f"| both | {setting.share(tested, 'cmc@1')} |" in page


@pytest.mark.slow
def test_a_run_is_trained_and_measured_by_its_refinements():
    quick = replace(RUN, steps=2, classes=24, part="validation", loss="lifted, all positives", margin="1.0")
    result = setting.train(quick)
    assert result["protocol"] == "glyphs/class-disjoint-validation/designs-as-cameras/v1/first-24"
    (plain,) = result["scores"]
    assert plain["refinement"] == "plain"
    assert 0 < plain["map"] <= 1


def test_the_settings_of_the_recipe_are_the_chosen_ones():
    rows = runner.read_rows(FOLDER / "choice.csv")
    for method, rate in recipe.RATES.items():
        chosen_rate, settings = choice.chosen(rows, method)
        assert chosen_rate == rate
        assert settings == recipe.CHOSEN[method]
