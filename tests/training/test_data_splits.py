"""The splits of a set: what is disjoint, and sets that cannot be split."""

import re
import shutil

import numpy as np
import pytest

from tests.worlds import write_png
from tfdml import datasets
from tfdml.datasets import LabeledSet
from tfdml.training import network
from tfdml.training.data_splits import parts_of, split_rows
from tfdml.training.plan import new_plan, resumed_plan


def labeled(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(len(labels))
    images = np.broadcast_to(rows[:, None, None, None], (len(labels), 1, 1, 1))
    return LabeledSet(labels=labels, images=images, class_names=tuple(f"class {i}" for i in range(len(sizes))))


def split(images, **options):
    return parts_of(images, split_rows(images, **options), options["split_by"])


def rows_of(part):
    return set(part.images[:, 0, 0, 0].tolist())


@pytest.mark.parametrize("split_by", ["class", "image"])
@pytest.mark.parametrize("test", [0.0, 0.2])
def test_parts_are_disjoint_and_together_the_set(split_by, test):
    images = labeled([5] * 12 + [1, 1])
    options = {"split_by": split_by, "validation": 0.25, "test": test, "seed": 3}
    parts = split(images, **options)
    together = [rows_of(part) for part in parts.values()]
    assert list(parts) == ["training", "validation", *(["test"] if test else [])]
    assert sorted(row for rows in together for row in rows) == list(range(62))
    assert {60, 61} <= together[0], "classes of one image have nothing to measure"
    assert together == [set(rows.tolist()) for rows in split_rows(images, **options).values()]
    names = [{part.class_names[label] for label in part.labels} for part in parts.values()]
    assert names[0].isdisjoint(names[1]) == (split_by == "class")


def test_the_same_seed_gives_the_same_splits():
    options = {"split_by": "class", "validation": 0.2, "test": 0.2}
    first, again, other = (split(labeled([4] * 20), **options, seed=seed)["test"] for seed in (1, 1, 2))
    assert rows_of(first) == rows_of(again) != rows_of(other)


@pytest.mark.parametrize(("split_by", "test"), [("image", 0.0), ("image", 0.2), ("class", 0.2)])
def test_a_plan_names_its_gallery_and_the_part_that_is_reported(split_by, test, monkeypatch):
    monkeypatch.setattr(network, "device", lambda: "gpu")  # no network is built to look at its memory
    options = {"backbone": "residual", "steps": 7, "split_by": split_by, "test": test}
    plan = new_plan(labeled([4] * 20), options, max_minutes=None)
    assert plan.gallery is (plan.train if split_by == "image" else None)
    assert plan.reported == ("test" if test else "validation")
    assert rows_of(plan.parts[plan.reported]) == set(plan.rows[plan.reported].tolist())
    assert (plan.settings.steps, plan.reasons["steps"], plan.train.load) == (7, "as given", plan.images.load)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([9], "9 usable images in 1 class, expected at least two classes"),
        ([], "0 usable images in 0 classes"),
        ([1] * 9, "9 classes; 0 classes with two images or more"),
        ([8, 1], "2 classes; 1 class with two images or more"),
        ([2, 1], "; 1 class with two"),
        ([2, 2], "expected at least 8"),
    ],
)
def test_a_set_without_pairs_of_two_classes_is_an_error(sizes, message):
    with pytest.raises(ValueError, match=message):
        split_rows(labeled(sizes), split_by="class", validation=0.2, test=0.0, seed=0)


def test_a_validation_part_of_one_class_is_an_error():
    with pytest.raises(ValueError, match=r"a validation part of one class.*larger validation fraction"):
        split_rows(labeled([4] * 3), split_by="class", validation=0.2, test=0.0, seed=0)


SHARES = {"split_by": "image", "validation": 0.2}


@pytest.mark.parametrize("test", [0.0, 0.2])
@pytest.mark.parametrize("sizes", [[5, 4], [4, 4], [40, 4], [10, 3, 3], [3] * 4, [12] * 8, [13] * 40])
def test_every_part_can_be_measured_and_trained_on_whatever_the_seed(sizes, test):
    images = labeled(sizes)
    for seed in [*range(20), -3, 2**63 - 1]:
        train, *held_out = parts = list(split(images, **SHARES, test=test, seed=seed).values())
        assert sorted(row for part in parts for row in rows_of(part)) == list(range(len(images)))
        assert [len(np.unique(part.labels)) >= 2 for part in parts] == [True] * len(parts)
        assert np.isin(held_out[-1].labels, train.labels).all(), "each query has a right answer"
        assert np.count_nonzero(np.bincount(train.labels) >= 2) >= 2, "there are pairs to learn from"


def test_a_set_that_no_draw_of_images_makes_measurable_is_refused():
    with pytest.raises(ValueError, match=r"class of two images.*smaller fractions|one class, expected two.*more"):
        split_rows(labeled([6, 2]), **SHARES, test=0.0, seed=0)
    with pytest.raises(ValueError, match=r"a training part of one class|one class of two images or more"):
        split_rows(labeled([4] * 3), split_by="class", validation=0.6, test=0.0, seed=0)


CHANGES = {
    "another size": (
        lambda root: (root / "b" / "4.png").write_bytes(b"x" * 999),
        "in 1 file .*: 'b/4.png' has another size",
    ),
    "gone": (lambda root: (root / "b" / "4.png").unlink(), "in 1 file .*: 'b/4.png' is gone, or cannot be read"),
    "new": (lambda root: shutil.copy(root / "b" / "4.png", root / "a" / "8.png"), "in 1 file .*: 'a/8.png' is new"),
    "another class": (lambda root: (root / "b").rename(root / "z"), "in 8 files .*: 'b/4.png' is gone"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_that_is_resumed_names_the_first_file_that_has_changed(change, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "device", lambda: "gpu")  # no network is built to look at its memory
    for row in range(16):
        write_png(tmp_path / "photos" / "abcd"[row // 4] / f"{row}.png", np.full((row + 1, 8, 3), row, np.uint8))
    read = lambda root: datasets.folder(tmp_path / root, load=datasets.Preprocessing(size=8))  # noqa: E731
    options = {"backbone": "residual", "steps": 7, "split_by": "image"}
    new_plan(read("photos"), options, max_minutes=None).begin(tmp_path / "run", lambda line: None)
    shutil.copytree(tmp_path / "photos", tmp_path / "copied")
    assert len(resumed_plan(tmp_path / "run", read("copied")).images) == 16
    act, message = CHANGES[change]
    act(tmp_path / "copied")
    with pytest.raises(ValueError, match=f"a set that has changed {message}.*, expected the set of the run"):
        resumed_plan(tmp_path / "run", read("copied"))
    (tmp_path / "run" / "state" / "files.json").unlink()  # as of an earlier version
    with pytest.raises(ValueError, match=re.escape("a set that has changed, expected the set of the run")):
        resumed_plan(tmp_path / "run", read("copied"))
