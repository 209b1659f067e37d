"""The studies of re-identification: what they train, what is chosen, and their tables."""

import csv
import json
import zlib
from dataclasses import asdict, replace

import pytest

from recipes import reidentification as recipe
from studies import __main__ as command
from studies import pages, reidentification, runner
from studies.reidentification import choice, setting, triplets, vehicles

FOLDER = pages.RESULTS / "reidentification"
RUN = setting.Run()


def invented(run):
    """Numbers in (0, 1) that the settings decide."""
    scores = []
    for name, settings in setting.measurements(run):
        number = (1 + zlib.crc32(f"{runner.name_of(run)} {settings}".encode()) % 999) / 1000
        values = dict.fromkeys(["cmc@1", "cmc@5", "cmc@10", "map"], number)
        scores.append({"refinement": name, "settings": json.dumps(settings), **values, "queries": 5, "skipped": 0})
    about = {"core_seconds": 1.0, "protocol": run.part, "hardware": "2 cores", "versions": "keras 3.15.1"}
    return {"run": asdict(run), "scores": scores, **about}


def options(folder, **changes):
    return replace(setting.options(folder, workers=1), train=invented, **changes)


def driven(run):
    """Numbers of a vehicle network that the settings decide."""
    number = zlib.crc32(runner.name_of(run).encode()) % 1000 / 1000
    about = {"core_seconds": 1.0, "protocol": run.part, "hardware": "2 cores", "versions": "keras 3.15.1"}
    return {"run": asdict(run), "scores": dict.fromkeys(["cmc@1", "cmc@5", "map"], number), **about}


def test_the_rate_of_the_highest_map_of_the_validation_characters_is_tested_with_other_seeds(tmp_path):
    rows = triplets.rows(options(tmp_path))
    for loss in setting.LOSSES:
        trials, tested = (runner.where(rows, loss=loss, part=part) for part in ("validation", "test"))
        assert {row["seed"] for row in trials} == {0}
        best = max(trials, key=lambda row: row["map"])
        assert {row["learning_rate"] for row in tested} == {best["learning_rate"]}
        assert len(tested) == 3 * (5 if loss in setting.SOFT else 4)
        assert 0 not in {row["seed"] for row in tested}


def test_a_gain_is_paired_by_seeds():
    rows = [
        {
            "loss": method,
            "refinement": name,
            "map": 0.1 * seed + gain,
            **dict.fromkeys(["cmc@1", "cmc@5", "cmc@10"], 0.5),
        }
        for method, names in recipe.CHOSEN.items()
        for name, gain in zip(names, (0.0, 0.02, 0.03, 0.04, 0.05, 0.06), strict=True)
        for seed in (1, 2, 3)
    ]
    table = reidentification.STUDIES["refinements"].tables(rows)["refinements"].splitlines()
    assert table[3].startswith("| query expansion |")
    assert table[3].endswith("| 2.0 ± 0.0 |")


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


def test_vehicles_of_the_same_models_are_trained_chosen_and_tested():
    train, validation, test = (vehicles.vehicles(part, 60) for part in vehicles.PARTS)
    names = [set(part.class_names) for part in (train, validation, test)]
    assert [len(names[0] & names[1]), len(names[0] & names[2]), len(names[1] & names[2])] == [0, 0, 0]
    assert len(names[0]) > len(names[1]) + len(names[2])
    assert len(set(test.models) & set(train.models)) > 0.8 * len(set(test.models))
    for part in (train, validation, test):
        models = [name.split(",")[0] for name in part.class_names]
        assert len({(models[label], model) for label, model in zip(part.labels, part.models, strict=True)}) == len(
            set(part.models)
        )


def test_networks_and_losses_are_compared_by_seeds():
    """Seeds differ by 10 points, clusters gain 2, the second branch 3."""
    rows = [
        {"network": network, "loss": loss, "part": "test", "cmc@1": (10 * seed + 3 * two + 2 * clusters) / 100}
        for two, network in enumerate(vehicles.NETWORKS)
        for clusters, loss in enumerate(vehicles.LOSSES)
        for seed in (1, 2, 3)
    ]
    _, _, *lines = vehicles.tables(rows)["vehicles"].splitlines()
    assert lines == [
        "| one branch | 20.0 ± 24.8 | 22.0 ± 24.8 | 2.0 ± 0.0 |",
        "| two branches | 23.0 ± 24.8 | 25.0 ± 24.8 | 2.0 ± 0.0 |",
        "| two above one | 3.0 ± 0.0 | 3.0 ± 0.0 | |",
    ]
