"""Three kinds of few-shot training, on glyphs and on miniatures of both original formats."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tfdml.datasets.public import few_shot as readers

RECIPE = str(Path(__file__).parents[2] / "recipes" / "few_shot.py")

pytestmark = pytest.mark.slow


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Function that runs the recipe with options and returns the results that it writes."""

    def run(*options):
        monkeypatch.setattr("sys.argv", ["few_shot", "--quick", "--output", str(tmp_path / "runs"), *options])
        runpy.run_path(RECIPE, run_name="__main__")
        return json.loads((tmp_path / "runs/results.json").read_text())

    return run


def test_every_kind_is_measured_on_test_classes_and_an_episode_is_drawn(record, tmp_path, capsys):
    written = record()
    assert written["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/100-classes"
    results = written["results"]
    assert set(results) == {"pixels", "cross-entropy", "metric", "prototypical", "zoo, best model"}
    assert results["zoo, best model"]["100-way 1-shot apart"]["accuracy"] > 0.8  # it is trained
    assert results["pixels"]["5-way 1-shot"]["accuracy"] > 0.2
    assert f"{100 * results['metric']['5-way 5-shot']['accuracy']:.1f}" in capsys.readouterr().out
    assert (tmp_path / "runs/episode.png").stat().st_size > 1000


def test_omniglot_is_read_from_its_files(record, tmp_path, monkeypatch):
    listed = {
        "trainval": ["Latin/character01", "Latin/character02"],
        "test": [f"Greek/character0{n}" for n in range(5)],
    }
    write_omniglot(tmp_path / "omniglot", listed)
    monkeypatch.setattr(readers, "CHARACTERS", {"images_background": 2, "images_evaluation": 5})
    monkeypatch.setattr(readers, "LISTED", {name: len(characters) for name, characters in listed.items()})
    written = record("--dataset", "omniglot", "--data", str(tmp_path / "omniglot"))
    assert written["protocol"] == "omniglot/vinyals-1200-423/rot4/5way-1shot/v1"
    assert set(written["results"]["metric"]) == {"5-way 1-shot", "5-way 5-shot", "20-way 1-shot"}
    assert written["results"]["pixels"]["20-way 1-shot"]["accuracy"] == 1.0  # the drawers draw the same pages


def write_omniglot(root, listed):
    """Characters of one page of noise each, which all 20 drawers have."""
    (root / "splits/vinyals").mkdir(parents=True)
    number = 0
    for folder, (name, characters) in zip(("images_background", "images_evaluation"), listed.items(), strict=True):
        lines = [f"{character}/rot{angle}" for character in characters for angle in ("000", "090", "180", "270")]
        (root / f"splits/vinyals/{name}.txt").write_text("\n".join(lines))
        for character in characters:
            number += 1
            (root / folder / character).mkdir(parents=True)
            noise = np.random.default_rng(number).integers(0, 2, (7, 7), np.uint8)
            page = Image.fromarray(255 * noise.repeat(15, 0).repeat(15, 1)).convert("1")
            for drawer in range(1, 21):
                page.save(root / folder / character / f"{number:04}_{drawer:02}.png")


def test_mini_imagenet_is_read_from_its_files(record, tmp_path, monkeypatch):
    root, counts = tmp_path / "mini-imagenet", {"train": (80, 5), "val": (16, 1), "test": (100, 5)}
    write_mini_imagenet(root, counts)
    monkeypatch.setattr(readers, "MINI_IMAGENET", counts)
    written = record("--dataset", "mini-imagenet", "--data", str(root))
    assert written["protocol"] == "mini-imagenet/ravi-64-16-20/5way-5shot/v1"
    assert set(written["results"]) == {"cross-entropy", "metric", "prototypical"}
    assert written["results"]["cross-entropy"]["5-way 5-shot"]["accuracy"] > 0.3  # tints, of which a fifth is chance


def write_mini_imagenet(root, counts):
    """Classes of one tint each."""
    (root / "images").mkdir(parents=True)
    rng, first = np.random.default_rng(0), 1
    for part, (images, classes) in counts.items():
        lines = ["filename,label"]
        for label in range(first, first + classes):
            tint = tuple(rng.integers(0, 256, 3).tolist())
            for number in range(images // classes):
                lines.append(f"n{label:08}{number:08}.jpg,n{label:08}")
                Image.new("RGB", (84, 84), tint).save(root / f"images/n{label:08}{number:08}.jpg")
        (root / f"{part}.csv").write_text("\n".join(lines))
        first += classes
