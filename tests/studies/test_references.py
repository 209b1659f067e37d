"""The comparison of references: what is trained, what is chosen, and the tables and the verdict that are made of it."""

import csv
import zlib
from dataclasses import asdict, replace

import numpy as np
import pytest

import tfdml
from studies import __main__ as command
from studies import pages, references, runner
from studies.references import family, methods, setting, summary

FOLDER = pages.RESULTS / "references"
PUBLISHED = sorted(path.stem for path in FOLDER.glob("*.csv"))
RUN = setting.Run()


def of(loss, **changes):
    return replace(setting.trials(replace(RUN, loss=loss))[0], **changes)


def result(run, score):
    about = {"hardware": "2 cores", "versions": "1.0", "protocol": run.part, "core_seconds": 1.0}
    return {"run": asdict(run), "scores": {"recall@1": score, "map@r": score}, **about}


def invented(run):
    """Numbers in (0, 1) that the settings decide."""
    return result(run, (1 + zlib.crc32(runner.name_of(run).encode()) % 999) / 1000)


def texts(name):
    return list(csv.DictReader((FOLDER / f"{name}.csv").read_text().splitlines()))


@pytest.mark.parametrize("loss", methods.METHODS)
def test_each_loss_is_made_for_each_of_its_four_trials(loss):
    trials = setting.trials(replace(RUN, loss=loss))
    assert len(set(trials)) == 4
    x = np.random.default_rng(0).standard_normal((8, 64)).astype("float32")
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for trial in trials:
        value = float(setting.loss_of(trial, classes=4)(np.arange(8) // 2, x))
        assert np.isfinite(value)


@pytest.mark.parametrize("loss", methods.METHODS)
def test_any_two_values_of_different_settings_stand_together_in_the_same_number_of_trials(loss):
    trials = methods.METHODS[loss].trials(setting.RATES)
    columns = list(zip(*((rate, *settings.values()) for rate, settings in trials), strict=True))
    assert all(sorted(map(column.count, set(column))) == [2, 2] for column in columns)
    assert all(len(set(zip(a, b, strict=True))) == 4 for i, a in enumerate(columns) for b in columns[:i])


def test_the_best_trial_of_the_validation_classes_is_tested_with_other_seeds(tmp_path):
    trained = []

    def train(run):
        trained.append(run)
        return result(run, run.learning_rate + 0.1 * (run.settings == "temperature 0.2") + run.seed / 100)

    options = replace(setting.options(tmp_path, workers=1), train=train)
    rows = family.Family("some", ["NT-Xent"]).rows(options)
    for data in setting.SETS:
        tested = runner.where(rows, data=data, part="test")
        assert [row["seed"] for row in tested] == [1, 2, 3, 4, 5]
        assert {(row["learning_rate"], row["settings"]) for row in tested} == {(setting.RATES[1], "temperature 0.2")}
        assert {row["seed"] for row in runner.where(rows, data=data, part="validation")} == {0}
    assert len(trained) == len(set(trained)) == len(rows) == 2 * (4 + 5)


def test_an_interval_is_that_of_students_t():
    mean, half = setting.interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (mean, half) == (3.0, pytest.approx(2.7764 * np.sqrt(2.5) / np.sqrt(5), rel=1e-4))
    assert setting.interval([0.5]) == (0.5, 0.0)


def test_photo_patches_are_means_of_squares_and_colors():
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 6, 3)).astype("uint8")
    patches = tfdml.datasets.LabeledSet(images=images, labels=np.arange(3), class_names=tuple("abc"), protocol="p")
    small = setting.small_and_gray(patches)
    assert small.images.shape == (3, 2, 3, 1)
    assert small.images[1, 0, 2, 0] == np.round(images[1, 0:2, 4:6].astype("float64").mean())
    assert small.protocol == "p/gray-32x32"


def test_the_verdict_names_what_cannot_be_told_from_the_first():
    scores = {"contrastive": [0.3, 0.31, 0.32], "NT-Xent": [0.5, 0.52, 0.54], "SupCon": [0.51, 0.5, 0.56]}
    tested = {
        "batch": [
            {**asdict(of(loss, data=data, part="test", seed=seed)), "map@r": score, **dict.fromkeys(summary.ABOUT, "-")}
            for data in setting.SETS
            for loss in scores
            for seed, score in enumerate(scores[loss])
        ]
    }
    rows = [row for data in setting.SETS for row in summary.compared(data, tested)]
    (contrastive,) = runner.where(rows, data="glyphs", loss="contrastive")
    assert contrastive["behind"] == pytest.approx(np.mean([0.21, 0.19, 0.24]), abs=1e-6)
    assert contrastive["behind"] > contrastive["behind half"]
    text = summary.tables(rows)["verdict"]
    assert "**Glyphs.** SupCon is first of 3 losses with a MAP@R of 52.3" in text
    assert "includes 0 for NT-Xent. Places of the baselines: contrastive 3." in text
    assert "rank correlation between the MAP@R of the two sets is 1.00" in text


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    output = tmp_path_factory.mktemp("references")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setting, "train", invented)
        command.main(["references", "--quick", "--output", str(output)])
    return output


def test_a_quick_run_leaves_rows_a_figure_and_a_page_of_tables(quick):
    for name in references.STUDIES:
        assert runner.read_rows(quick / f"{name}.csv")
    assert (quick / "references-summary.png").read_bytes().startswith(b"\x89PNG")
    row = runner.where(runner.read_rows(quick / "softmax.csv"), part="test")[0]
    assert f"| {row['settings']} | {100 * row['map@r']:.1f} ± 0.0 |" in (quick / "references.md").read_text()


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_rows_are_those_that_the_study_makes_of_its_runs(name, tmp_path):
    names = list(asdict(RUN))
    kept = {tuple(row[key] for key in names): row for stem in PUBLISHED for row in texts(stem) if "part" in row}

    def recalled(run):
        row = kept[tuple(str(value) for value in asdict(run).values())]
        scores = {key: float(row[key]) for key in ("recall@1", "map@r")}
        return (
            result(run, 0)
            | {key: row[key] for key in summary.ABOUT}
            | {
                "scores": scores,
                "core_seconds": float(row["core_seconds"]),
            }
        )

    options = replace(setting.options(tmp_path / "runs", workers=1), train=recalled)
    runner.write_rows(tmp_path / "rows.csv", references.STUDIES[name].rows(options))
    assert (tmp_path / "rows.csv").read_text() == (FOLDER / f"{name}.csv").read_text()


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_page_has_the_tables_of_the_published_rows(name):
    page = (pages.ROOT / references.PAGE).read_text()
    assert command.filled(page, "references", [name], FOLDER) == page


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "summary"])
def test_trials_saw_validation_classes_only(name):
    for row in texts(name):
        assert ("validation" in row["protocol"]) is (row["part"] == "validation")


@pytest.mark.slow
@pytest.mark.parametrize("data", setting.SETS)
def test_a_run_trains(data):
    found = setting.train(of("CosFace", data=data, steps=4, classes=40))
    assert 0.05 < found["scores"]["recall@1"] < 1
    assert "first-40" in found["protocol"]
