"""The leaderboard: what is trained, what is chosen, and the tables and the verdict that are made of it."""

import csv
import re
import zlib
from dataclasses import asdict, replace

import pytest

from studies import __main__ as command
from studies import leaderboard, pages, restored, runner
from studies.leaderboard import methods, scaling, setting, starts, summary, whole

FOLDER = pages.RESULTS / "leaderboard"
PUBLISHED = sorted(path.stem for path in FOLDER.glob("*.csv") if path.stem != "costs")
OF_BOARDS = [name for name in PUBLISHED if name not in ("scaling", "whole")]
RUN = setting.Run()


def result(run, score):
    names, about = dict.fromkeys(("recall@1", "map@r", "nmi"), score), dict.fromkeys(("hardware", "versions"), "-")
    protocol = getattr(run, "part", "test")
    return {"run": asdict(run), "scores": names, "protocol": protocol, "core_seconds": 1.0, "backend": "jax", **about}


def invented(run):
    """Numbers in (0, 1) that the settings decide."""
    return result(run, (1 + zlib.crc32(runner.name_of(run).encode()) % 999) / 1000)


class InventedBench:
    """A bench of whole networks that trains nothing."""

    def __init__(self, *arguments, **options):
        pass

    def results(self, runs):
        return [invented(run) for run in runs]


def of(loss, **changes):
    return replace(setting.trials(replace(RUN, loss=loss))[0], **changes)


def texts(name):
    return list(csv.DictReader((FOLDER / f"{name}.csv").read_text().splitlines()))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    output = tmp_path_factory.mktemp("leaderboard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setting, "train_seeds", lambda runs: [invented(run) for run in runs])
        patch.setattr(scaling, "train_seeds", setting.train_seeds)
        patch.setattr(whole, "Bench", InventedBench)
        command.main(["leaderboard", "--quick", "--output", str(output)])
    return output


def test_a_quick_run_leaves_rows_a_figure_and_a_page_of_tables(quick):
    for name in leaderboard.STUDIES:
        assert runner.read_rows(quick / f"{name}.csv")
    assert (quick / "leaderboard-summary.png").read_bytes().startswith(b"\x89PNG")
    page, row = (quick / "leaderboard.md").read_text(), runner.read_rows(quick / "summary.csv")[0]
    tested = runner.where(runner.read_rows(quick / f"{row['family']}.csv"), part="test", loss=row["loss"])[0]
    assert (row["settings"], row["learning_rate"]) == (tested["settings"], tested["learning_rate"])
    assert re.search(rf"\| {re.escape(row['loss'])} \| {row['family']} \|.* {100 * row['map@r']:.1f} ± ", page)
    board = page.partition("<!-- board of")[2].partition("<!-- end")[0]
    assert len(re.findall(r"^\| \w", board, flags=re.MULTILINE)) == summary.SHOWN


@pytest.mark.parametrize("name", OF_BOARDS)
def test_the_published_rows_are_those_that_the_study_makes_of_its_runs(name, tmp_path):
    names = list(asdict(RUN))
    kept = {tuple(row[key] for key in names): row for stem in OF_BOARDS for row in texts(stem) if "part" in row}

    def recalled(run):
        row = kept[tuple(str(value) for value in asdict(run).values())]
        scores = {key: float(row[key]) for key in ("recall@1", "map@r", "nmi") if row[key]}
        about = {key: row[key] for key in (*summary.ABOUT, "backend", "finished")}
        return {"run": asdict(run), "scores": scores, "core_seconds": float(row["core_seconds"]), **about}

    options = replace(setting.options(tmp_path / "runs", workers=1), train=recalled, train_seeds=None)
    runner.write_rows(tmp_path / "rows.csv", leaderboard.STUDIES[name].rows(options))
    assert (tmp_path / "rows.csv").read_text() == (FOLDER / f"{name}.csv").read_text()


def test_the_published_rows_of_scaling_are_those_of_its_five_axes(tmp_path, monkeypatch):
    options = setting.options(tmp_path / "runs", workers=1)
    restored.restore(texts("scaling"), options, scaling.Run, leaderboard.result_of)
    monkeypatch.setattr(scaling, "train_seeds", None)  # every run has its row
    runner.write_rows(tmp_path / "rows.csv", scaling.rows(options))
    assert (tmp_path / "rows.csv").read_text() == (FOLDER / "scaling.csv").read_text()
    assert len(texts("scaling")) == 8 * 5 * 5 * 3


@pytest.fixture(scope="module")
def published():
    """Rows of all families, by board and method."""
    rows = [row for name in methods.FAMILIES if name in PUBLISHED for row in texts(name)]
    groups = {}
    for row in rows:
        groups.setdefault((row["data"], row["start"], row["loss"]), []).append(row)
    return groups


def test_every_row_has_equal_trials_and_seeds_and_its_trials_were_finished_before_its_test(published):
    """Trials saw validation classes only. Rows of earlier versions have no time."""
    for (_, start, _), rows in published.items():
        trials, tested = (runner.where(rows, part=part) for part in ("validation", "test"))
        assert [row["seed"] for row in trials] == ["0"] * 4
        assert [row["seed"] for row in tested] == ["1", "2", "3", "4", "5"]
        assert ["validation" in row["protocol"] for row in (*trials, *tested)] == [True] * 4 + [False] * 5
        assert len({(row["learning_rate"], row["settings"]) for row in trials}) == 4
        assert {(row["steps"], row["classes_per_batch"]) for row in rows} == {(str(setting.STEPS[start]), "32")}
        best = max(trials, key=lambda row: float(row["map@r"]))
        assert {(row["learning_rate"], row["settings"]) for row in tested} == {
            (best["learning_rate"], best["settings"])
        }
        if all(row["finished"] for row in rows):
            assert max(row["finished"] for row in trials) < min(row["finished"] for row in tested)


@pytest.mark.parametrize("board", setting.BOARDS)
def test_all_methods_are_on_each_board_of_their_starts(published, board):
    on_board = {method for *key, method in published if tuple(key) == board}
    assert on_board == {name for name, method in methods.METHODS.items() if board[1] in method.starts()}
    assert len(on_board) >= 75


def test_features_are_those_of_characters_that_their_network_has_not_seen():
    seen, used = (starts._every_other(starts._glyphs()["train"], start).class_names for start in (0, 1))
    assert len(seen) == len(used) == 338
    assert not {*seen} & {*used}
    assert starts._sources("glyphs")["train"].class_names == used


@pytest.mark.slow
@pytest.mark.parametrize("data", starts.SETS)
def test_seeds_train_at_once_from_features(data, tmp_path, monkeypatch):
    monkeypatch.setattr(setting, "ROWS", tmp_path)
    run = of("hierarchical triplet", data=data, start="trained", steps=10, classes=40, part="test")
    one, other = setting.train_seeds([run, replace(run, seed=1)])
    assert {**one["run"], "seed": 1} == other["run"]
    assert "first-40" in one["protocol"]
    assert 0.02 < one["scores"]["nmi"] < 1
    assert (tmp_path / f"{data.replace(' ', '-')}-trained-4-32-40-0-10.npy").exists()
