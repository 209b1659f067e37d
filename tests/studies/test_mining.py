"""The studies of mining, at their quick size."""

import csv

import pytest

from tests.recipes.running import run

TABLES = ("samplings", "batch_sizes", "boundaries", "weights", "temperatures")
FIGURES = ("imbalance", "top_k", "distances")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", TABLES + FIGURES)
def test_a_study_leaves_its_rows_and_its_figure(name, output, monkeypatch, capsys):
    run(f"recipes.mining.{name}", output, monkeypatch, capsys)
    rows = list(csv.DictReader((output / f"{name}.csv").read_text().splitlines()))
    assert rows
    for row in rows:
        assert float(row["density" if name == "distances" else "recall@1"]) >= 0
        assert row["protocol"] == "glyphs/class-disjoint/exact-cosine/v1"
        assert "cores" in row["hardware"]
    assert (output / f"{name}.png").exists() is (name in FIGURES)


def test_runs_that_studies_share_are_trained_once(output, monkeypatch, capsys):
    for name in ("samplings", "weights"):
        run(f"recipes.mining.{name}", output, monkeypatch, capsys)
    lost = next(path for path in (output / "runs").glob("loss-RAW_mining-valid*.json"))
    lost.unlink()
    assert run("recipes.mining.weights", output, monkeypatch, capsys) == f"trained: {lost.stem}\n"
