"""The studies of papers: what they train, and the rows, figures and tables that they make of it."""

import csv
import json
from dataclasses import replace
from functools import partial

import pytest

from studies import __main__ as command
from studies import importance_sampling, mining, pages, runner
from studies.importance_sampling import setting as importance_setting
from studies.mining import setting as mining_setting
from tests.studies import standins

PAPERS = {"mining": mining, "importance_sampling": importance_sampling}
STUDIES = [(paper, name) for paper, module in PAPERS.items() for name in module.STUDIES]
OTHERS = ("distances", "trained_start", "trained_pairs", "whole_network", "whole_pairs", "robust_values")
OTHERS += ("robust_features", "boundary_ranges")  # without runs of the setting of the paper
ON_RUNS = [study for study in STUDIES if study[1] not in OTHERS]
PUBLISHED = [(paper, name) for paper, name in ON_RUNS if (pages.RESULTS / paper / f"{name}.csv").exists()]


def text_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.parametrize(("paper", "name"), PUBLISHED)
def test_the_published_rows_are_those_that_the_study_makes_of_its_runs(paper, name, tmp_path):
    options = replace(PAPERS[paper].options(tmp_path / "runs"), train=partial(standins.recalled, paper), workers=1)
    runner.write_rows(tmp_path / "rows.csv", PAPERS[paper].STUDIES[name].rows(options))
    published = pages.RESULTS / paper / f"{name}.csv"
    assert (tmp_path / "rows.csv").read_text().splitlines() == published.read_text().splitlines()


def run_quickly(paper, output):
    """All studies but `distances`, with a stand-in for training."""
    setting = {"mining": mining_setting, "importance_sampling": importance_setting}[paper]
    names = [name for name in PAPERS[paper].STUDIES if (paper, name) in ON_RUNS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setting, "train", partial(standins.invented, paper))
        command.main([paper, *names, "--quick", "--output", str(output)])
    return names


@pytest.fixture(scope="module", params=PAPERS)
def quick(request, tmp_path_factory):
    output = tmp_path_factory.mktemp(request.param)
    return request.param, run_quickly(request.param, output), output


@pytest.mark.slow
def test_a_quick_run_leaves_rows_figures_and_a_page_of_tables(quick):
    paper, names, output = quick
    for name in names:
        rows = text_of(output / f"{name}.csv")
        assert rows
        assert all(0 < float(row["recall@1"]) < 1 and row["protocol"] == standins.PROTOCOLS[paper] for row in rows)
        figure = output / f"{PAPERS[paper].FIGURES.rpartition('/')[2].format(name)}"
        assert figure.exists() is hasattr(PAPERS[paper].STUDIES[name], "draw")
        if figure.exists():
            assert figure.read_bytes().startswith(b"\x89PNG")
    page = output / PAPERS[paper].PAGE.rpartition("/")[2]
    shown = next(name for name in names if hasattr(PAPERS[paper].STUDIES[name], "tables"))
    (some_share,) = {f"{100 * float(rows[0]['recall@1']):.1f}" for rows in [text_of(output / f"{shown}.csv")]}
    assert f"| {some_share} ± 0.0 |" in page.read_text()


def check_results(results, paper):
    assert list(results["validation"]) == list(results["test"]) == standins.keys(paper)
    assert 0.2 < results["test"]["recall@1"] <= 1
    assert results["protocol"] == standins.PROTOCOLS[paper]
    assert "cores" in results["hardware"]
    assert "tensorflow" in results["versions"]
    json.dumps(results)


@pytest.mark.slow
def test_a_run_of_mining_trains():
    run = mining_setting.Run(loss="margin", boundary="learned", steps=8, classes=20)
    check_results(mining_setting.train(run), "mining")


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"design": "0.5-random", "removed": 0.5, "watch": True},
        {"design": "4x8", "loss": "contrastive", "labels": 17, "per_class": None, "steps": 101},
    ],
    ids=lambda settings: settings["design"],
)
def test_a_run_of_importance_sampling_trains(settings):
    run = importance_setting.Run(**{"steps": 8, "classes": 20, **settings})
    results = importance_setting.train(run)
    check_results(results, "importance_sampling")
    assert [row["step"] for row in results["watched"]] == ([8] if run.watch else [])
    assert all(row["full_loss"] > 0 and row["recall@1"] == results["test"]["recall@1"] for row in results["watched"])


@pytest.mark.slow
def test_histograms_of_distances_are_densities(tmp_path):
    options = mining.options(tmp_path, quick=True)
    rows = mining.STUDIES["distances"].rows(replace(options, base=replace(options.base, steps=20)))
    names = dict.fromkeys((row["panel"], row["name"]) for row in rows)
    assert [panel for panel, _ in names] == ["time"] * 5 + ["strategy"] * 4
    for panel, name in names:
        bins = runner.where(rows, panel=panel, name=name)
        assert sum(row["density"] for row in bins) * 2 / len(bins) == pytest.approx(1)
    mining.STUDIES["distances"].draw(tmp_path / "distances.png", rows)
    assert (tmp_path / "distances.png").read_bytes().startswith(b"\x89PNG")
