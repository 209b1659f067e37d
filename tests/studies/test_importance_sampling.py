"""The studies of importance sampling, at their quick size."""

import csv
import json

import pytest

from tests.recipes.running import run

STUDIES = ("negatives", "batch_designs", "exponent", "class_sizes", "train_loss")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_leaves_its_rows_and_its_figure(name, output, monkeypatch, capsys):
    printed = run(f"recipes.importance_sampling.{name}", output, monkeypatch, capsys)
    rows = list(csv.DictReader((output / f"{name}.csv").read_text().splitlines()))
    assert len(rows) > 1
    for row in rows:
        assert 0 < float(row["recall@1"]) <= 1
        assert row["protocol"] == "glyphs/class-disjoint/exact-euclidean/v1"
        assert "cores" in row["hardware"]
    if name == "batch_designs":
        assert "| 256 | (4, 8)-group | no | 0.01 |" in printed
    else:
        assert (output / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_study_that_is_started_again_trains_only_what_is_missing(output, monkeypatch, capsys):
    run("recipes.importance_sampling.class_sizes", output, monkeypatch, capsys)  # another process may have run it
    kept = {path: path.read_text() for path in (output / "runs").glob("*.json")}
    lost = next(path for path, text in kept.items() if json.loads(text)["run"]["removed"] == 0.5)
    lost.unlink()
    before = (output / "class_sizes.csv").read_text()
    printed = run("recipes.importance_sampling.class_sizes", output, monkeypatch, capsys)
    assert printed.count("trained: ") == 1
    assert lost.stem in printed

    def scores(text):
        return [
            [row[key] for key in ("removed", "delta", "recall@1", "map@r")] for row in csv.DictReader(text.splitlines())
        ]

    assert scores((output / "class_sizes.csv").read_text()) == scores(before)
