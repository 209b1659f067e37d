"""Training without classes: parts and views, a table that decides in place of views, whole runs, and bad input."""

import csv
import importlib
import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import cosine_similarity

import tfdml
from tests.training.test_train import TINY
from tests.worlds import write_png
from tfdml import cli, training
from tfdml._core import philox
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.training import network, outputs
from tfdml.training.plan import new_plan, plan_of
from tfdml.training.unlabeled import ids_of, views_of
from tfdml.training.views import RandomLight, RandomWindow, on_other_images

module = importlib.import_module("tfdml.training.train")
OPTIONS = {**TINY, "unlabeled": True, "examples_per_class": 2, "steps": 2, "epochs": 1}


def photos(number=60, labels=-1, names=()):
    """Pictures of two colors each."""
    random = np.random.default_rng(0)
    corners = random.integers(0, 256, (number, 2, 2, 3)).repeat(10, axis=1).repeat(8, axis=2)
    images = np.clip(corners + random.normal(0, 20, corners.shape), 0, 255).astype("uint8")
    return LabeledSet(images=images, labels=np.broadcast_to(labels, number).copy(), class_names=tuple(names))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A flat folder of 60 photos, and a table of 24 of them in 12 classes."""
    root = tmp_path_factory.mktemp("flat")
    for row, pixels in enumerate(photos().images):
        write_png(root / "photos" / f"{row:02}.png", pixels)
    lines = [f"photos/{row:02}.png,thing {row // 2}" for row in range(24)]
    (root / "few.csv").write_text("\n".join(["path,label", *lines]))
    return root / "photos"


def test_parts_without_classes_are_disjoint_and_the_gallery_has_the_image_of_each_view(monkeypatch):
    monkeypatch.setattr(network, "device", lambda: "gpu")
    plan = new_plan(photos(), {**OPTIONS, "test": 0.2}, max_minutes=None)
    counts = {name: len(rows) for name, rows in plan.rows.items()}
    assert counts == {"training": 36, "validation": 12, "test": 12, "gallery": 60}
    parts = [set(plan.rows[name].tolist()) for name in ("training", "validation", "test")]
    assert set.union(*parts) == set(range(60))
    assert plan.train.labels.tolist() == plan.rows["training"].tolist()
    for name in ("validation", "test"):
        assert plan.parts[name].labels.tolist() == 4 * plan.rows[name].tolist()
        assert np.unique(plan.parts[name].images, axis=0).shape == (48, 16, 16, 3)
    assert plan.gallery.labels.tolist() == plan.measured_rows.tolist() == list(range(60))
    assert plan.are_views
    assert not np.isin(plan.rows["training"], plan.rows["validation"]).any()


def test_settings_without_classes_are_for_views():
    settings = new_plan(photos(), {**OPTIONS, "size": 16, "steps": 1}, None).settings
    chosen = {name: getattr(settings, name) for name in ("split_by", "loss", "validation", "test", "labels")}
    assert chosen == {"split_by": "image", "loss": "nt-xent", "validation": 0.2, "test": 0.0, "labels": "none"}


def test_images_with_a_class_are_alike_and_each_other_image_is_by_itself():
    labels = np.array([1, -1, 0, 1, -1, 0])
    assert ids_of(photos(6, labels, "ab")).tolist() == [1, 2, 0, 1, 3, 0]
    assert ids_of(photos(6)).tolist() == [0, 1, 2, 3, 4, 5]


def test_views_are_the_same_each_time_and_depend_on_the_image_and_half_of_them_on_the_next_one():
    data = replace(photos(6), load=Preprocessing(size=16))
    views = views_of(data, np.arange(6), 16)
    assert views.dtype == np.uint8
    np.testing.assert_array_equal(views_of(data, np.arange(6), 16), views)
    alone = np.concatenate([views_of(data.take([row]), np.array([row]), 16) for row in range(6)])
    assert 0 < np.count_nonzero((alone != views).any(axis=(1, 2, 3))) < 6
    assert np.abs(views.astype(int) - data.examples()).mean(axis=(1, 2, 3)).min() > 5


def test_light_is_the_same_without_tensorflow(monkeypatch):
    image = photos(1).images[0]
    lit = [np.asarray(RandomLight()(image, (seed, 3))) for seed in range(20)]
    monkeypatch.setattr(philox, "has_tensorflow", lambda: False)
    for seed, expected in enumerate(lit):
        again = RandomLight()(image, (seed, 3))
        assert (again.dtype, again.shape) == (np.uint8, image.shape)
        np.testing.assert_allclose(again.astype(int), expected, atol=1)
    assert np.std([each.mean() for each in lit]) > 10


@pytest.mark.parametrize("has_tensorflow", [True, False])
def test_a_window_is_a_rectangle_and_half_of_the_images_are_whole(has_tensorflow, monkeypatch):
    monkeypatch.setattr(philox, "has_tensorflow", lambda: has_tensorflow)
    image = photos(1).images[0]
    views = [np.asarray(RandomWindow()(image, (7, row))) for row in range(60)]
    shares = []
    for view in views:
        np.testing.assert_array_equal(view[..., :3], image)
        rows, columns = (np.flatnonzero(view[..., 3].any(axis=axis)) for axis in (1, 0))
        assert view[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1, 3].min() == 255
        assert view[..., 3].sum() == 255 * len(rows) * len(columns)
        shares.append((view[..., 3] > 0).mean())
    is_whole = np.array(shares) == 1
    assert 20 <= is_whole.sum() <= 40
    assert 0.1 < min(shares) < 0.35 < np.median(np.array(shares)[~is_whole]) < 0.65


def test_windows_of_a_class_are_on_images_of_other_classes():
    images = np.zeros((8, 2, 2, 4), np.uint8) + np.arange(8, dtype=np.uint8)[:, None, None, None]
    images[..., 3] = [[255, 0], [0, 0]]
    labels = np.repeat(np.arange(4), 2)
    pixels, same = on_other_images((images, labels), examples_per_class=2)
    pixels = np.asarray(pixels)
    assert same is labels
    assert pixels[:, 0, 0].tolist() == [[row] * 3 for row in range(8)]
    assert pixels[:, 1, 1, 0].tolist() == [2, 5, 4, 7, 6, 1, 0, 3]
    assert (labels[pixels[:, 1, 1, 0]] != labels).all()


def test_a_table_of_labels_holds_its_images_back_and_decides(folder, monkeypatch):
    monkeypatch.setattr(network, "device", lambda: "gpu")
    data = tfdml.datasets.folder(folder, load=Preprocessing(size=16))
    options = {**OPTIONS, "labels": str(folder.parent / "few.csv"), "test": 0.2}
    plan = new_plan(data, options, None)
    assert {name: len(rows) for name, rows in plan.rows.items()} == {"training": 36, "validation": 12, "test": 12}
    assert plan.settings.split_by == "class"
    assert plan.gallery is None
    assert not plan.are_views
    names = [set(plan.parts[name].class_names) for name in ("validation", "test")]
    assert names[0] | names[1] == {f"thing {number}" for number in range(12)}
    assert names[0].isdisjoint(names[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,class\na.png,1", r"a table with the columns 'path', 'class' and without 'label'"),
        ("path,label\ngone.png,1", "1 not a file, first gone.png. Files were looked for in"),
        ("path,label\nother.png,1\n", "few.csv' with 1 path that the set does not have: .*other.png"),
        ("path,label\n00.png,a\n01.png,a\n02.png,b", "1 class of two images, expected two classes or more"),
        ("path,other,same\n00.png,01.png,maybe", r"\['maybe'\] in the column same, expected one of 1, same, true, yes"),
        ("path,other,same\n00.png,00.png,yes", "1 pair of an image with itself"),
        ("path,other,same\n00.png,01.png,yes", "1 pair of the same of 1, expected pairs of both kinds"),
    ],
)
def test_a_table_that_cannot_decide_is_an_error(folder, tmp_path, text, message):
    (tmp_path / "few.csv").write_text(text)
    (tmp_path / "other.png").write_bytes(b"")
    with pytest.raises(ValueError, match=message):
        training.train(folder, tmp_path / "run", verbose=0, **OPTIONS, labels=str(tmp_path / "few.csv"))
    assert not (tmp_path / "run").exists()


def pairs_of(images, number):
    """A table of pairs of consecutive images, which are the same for each second one."""
    lines = [f"{2 * row:02}.png,{2 * row + 1:02}.png,{('no', 'yes')[row % 2]}" for row in range(number)]
    table = images.parent / "pairs.csv"
    table.write_text("\n".join(["path,other,same", *lines, "50.png,51.png,"]))
    return str(table)


def test_images_of_pairs_are_a_part_of_their_own_and_views_choose_the_epoch(folder):
    data = tfdml.datasets.folder(folder, load=Preprocessing(size=16))
    plan = new_plan(data, {**OPTIONS, "labels": pairs_of(folder, 8)}, None)
    assert {name: len(rows) for name, rows in plan.rows.items()} == {
        "training": 35, "validation": 9, "pairs": 16, "gallery": 44,
    }  # fmt: skip
    assert plan.rows["pairs"].tolist() == list(range(16))
    assert set(plan.measured_rows) == set(range(60))
    assert (plan.pairs.first.tolist(), plan.pairs.same.tolist()) == (list(range(0, 16, 2)), [False, True] * 4)
    assert (plan.reported, plan.are_views) == ("pairs", True)


@pytest.mark.slow
def test_pairs_decide_by_the_area_under_the_curve(folder, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(outputs, "_write_export", lambda *_: None)
    monkeypatch.setattr(module, "print_line", said.append)
    run = training.train(folder, tmp_path / "run", **OPTIONS, labels=pairs_of(folder, 8))
    assert (run.evaluation.main, run.evaluation.queries, run.evaluation.units) == ("auc", 8, 8)
    assert any(line.startswith("Pairs part: 8 pairs of 8 groups among 60 images") for line in said)
    assert "AUC differs by" in said[-1] or "no epoch reached" in said[-1]
    photos = replace(tfdml.datasets.folder(folder), load=tfdml.zoo.card(tmp_path / "run").preprocessing)
    x = np.asarray(tfdml.models.embed(run.model, photos))
    scores = [cosine_similarity(x[2 * row : 2 * row + 2])[0, 1] for row in range(8)]
    expected = roc_auc_score(np.arange(8) % 2, scores)
    first = next(iter(run.evaluation.means.values()))
    assert first["auc"].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (photos(10), {}, "10 usable images for unlabeled=True, expected at least 40"),
        (photos(60).take([0] * 60), {}, "1 usable image for unlabeled=True"),
        (photos(60), {"unlabeled": False, "labels": "few.csv"}, "labels='few.csv' without unlabeled=True"),
        (photos(60), {"labels": "gone.csv"}, "source='gone.csv', which is not a file"),
    ],
    ids=["few", "all alike", "labels alone", "no table"],
)
def test_bad_input_is_an_error_before_anything_is_written(data, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        training.train(data, tmp_path / "run", verbose=0, **{**OPTIONS, **options})
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_flat_folder_becomes_a_run_that_says_whether_views_are_found_better(folder, tmp_path, monkeypatch, capsys):
    said = []
    monkeypatch.setattr(module, "print_line", said.append)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items() if name != "unlabeled"]
    arguments = ["train", str(folder), "--unlabeled", "--out", str(tmp_path / "run"), "--json", *options]
    assert cli.main(arguments) == 0
    record = json.loads(capsys.readouterr().out)
    assert said[0] == "60 usable images; 0 left out"
    assert "validation       48 views of 12 images" in said
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"model.keras", "1", "index", "report.html"}
    assert len(tfdml.search.load(tmp_path / "run" / "index")) == 60
    sentence = said[-1]
    assert sentence in (tmp_path / "run" / "README.md").read_text()
    assert "a few labels would tell (--labels)" in sentence
    assert "MRR" in sentence
    is_better = sentence.startswith("Training helped")
    assert is_better == (record["best_epoch"] > 0)
    assert ("is exported" in sentence) != is_better
    card = tfdml.zoo.card(tmp_path / "run")
    assert "with the highest MRR of the validation part" in card.selection
    assert card.metrics["recall@1"].value == pytest.approx(
        record["metrics"]["trained" if is_better else "frozen"]["recall@1"]["value"], abs=1e-5
    )
    data = tfdml.datasets.folder(folder, load=Preprocessing(size=64))
    plan = plan_of(tmp_path / "run", data)
    assert plan.are_views, "an evaluation of its set, and a resumed run, know the same parts"
    with (tmp_path / "run" / "history.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1"]


@pytest.mark.slow
def test_a_set_with_classes_is_said_to_learn_more_with_them_and_a_table_decides(folder, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(module, "print_line", said.append)
    data = tfdml.datasets.folder(folder, load=Preprocessing(size=64))
    data = replace(data, labels=np.arange(60) // 30, class_names=("monday", "tuesday"))
    for name in ("_write_export", "_write_card", "write_checksums"):
        monkeypatch.setattr(outputs, name, lambda *_, **__: None)
    monkeypatch.setattr(tfdml.evaluation.Evaluation, "html", lambda *_, **__: None)
    options = {**OPTIONS, "labels": str(folder.parent / "few.csv")}
    run = training.train(data, tmp_path / "run", **options)
    assert said[0].startswith("The set has 2 classes, which --unlabeled does not use.")
    assert (run.evaluation.queries, run.evaluation.units) == (24, 12)
    assert any("24 queries of 12 classes" in line for line in said)
