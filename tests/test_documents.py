"""The code in the documents runs, and their numbers are the measured ones."""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests import FEW_OPTIMIZATIONS
from tests.pages import blocks, commands, programs, short
from tests.small_networks import without_download
from tests.zoo.local_hub import LocalHub

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*/README.md"))
SKILL = ROOT / "tfdml" / "SKILL.md"  # in the wheel, for programs that write programs
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *RECIPES, SKILL]
LISTS = [ROOT / room / "README.md" for room in ("benchmarks", "recipes", "studies")]


def small(glyphs, **options):
    """The first 40 classes of each part; docs/glyphs.md shows the whole set."""
    return [part.select_classes(range(40)) for part in glyphs(**options)]


def own_photos(folder, name="photos"):
    """24 classes of 5 small JPEG files, each with a tint of its own, in a folder, listed in a table beside it."""
    lines = ["path,label"]
    for row, label in enumerate(np.repeat(np.arange(24), 5)):
        random = np.random.default_rng(row)
        pixels = random.integers(0, 40, (40, 48, 3)) + random.integers(0, 50, 3) + 7 * label
        path = folder / name / f"class-{label:02}" / f"{row}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_jpeg(pixels.astype("uint8")).numpy())
        lines.append(f"{path.relative_to(folder)},class-{label:02}")
    (folder / f"{name}.csv").write_text("\n".join(lines))


def first_minute(folder):
    """What the five lines of docs/index.md read: a model of the zoo, photos, and `mine.jpg`, a copy of one of them."""
    own_photos(folder)
    shutil.copy(folder / "photos" / "class-03" / "15.jpg", folder / "mine.jpg")
    shutil.copytree(ROOT / "savedmodels" / "things", folder / "savedmodels" / "things")


def small_network(version, *, input_shape, weights):
    """Stands in for `efficientnet_lite`."""
    pixels = keras.Input(input_shape or (224, 224, 3))
    return keras.Model(pixels, keras.layers.Conv2D(8, 3, strides=8)(pixels))


def at_its_lines(page, block):
    """A block with the line numbers of its page, in which TensorFlow looks up the source of functions."""
    text = page.read_text()
    return "\n" * text.count("\n", 0, text.index(block)) + block


@pytest.fixture
def prepared(page, tmp_path, monkeypatch):
    """The page in an empty folder, with small data and no downloads."""
    monkeypatch.chdir(tmp_path)
    if page.name in ("README.md", "SKILL.md", "index.md", "first-model.md", "adapters.md"):
        monkeypatch.setattr(tfdml.datasets, "glyphs", partial(small, tfdml.datasets.glyphs))
        first_minute(tmp_path)
    if page.name in ("photos.md", "evaluation.md", "train.md", "second-day.md"):
        own_photos(tmp_path)
    if page.name == "train.md":
        own_photos(tmp_path, "strangers")
    if page.name == "training.md":
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        monkeypatch.setenv("WANDB_SILENT", "true")
    if page.name in ("photo-patches.md", "search.md", "visualize.md", "zoo.md"):
        (tmp_path / "savedmodels").symlink_to(ROOT / "savedmodels")
        monkeypatch.setitem(sys.modules, "huggingface_hub", LocalHub(tmp_path / "cache"))
    if page.name in ("photos.md", "networks.md"):
        for name in ("ResNet50", "ResNet50V2"):  # tests/models has a large one
            monkeypatch.setattr(keras.applications, name, without_download(getattr(keras.applications, name)))
    if page.name == "photos.md":  # networks.md and tests/networks have the large one
        monkeypatch.setattr(sys.modules["tfdml.models.from_backbone"], "efficientnet_lite", small_network)
    yield page
    if page.name == "distributed.md" and "ray" in sys.modules:
        sys.modules["ray"].shutdown()


def run_blocks(page, count=None):
    """Run the first `count` blocks of a page, or all, in one namespace."""
    names = {}
    for block in blocks(page)[:count]:
        exec(compile(short(at_its_lines(page, block)), str(page), "exec"), names)
    return names


EXAMPLES = pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)


@EXAMPLES
def test_the_first_example_of_a_page_runs(prepared):
    run_blocks(prepared, 1 if prepared.name != "server.md" else None)  # there, the last block stops the server


# Pages that train, export or start programs several times.
NIGHTLY = {
    "distributed",
    "ensembles",
    "mining",
    "networks",
    "pair-models",
    "photos",
    "reidentification",
    "runtimes",
    "serving",
    "training",
    "tuning",
    "two-towers",
    "verification",
    "visualize",
    "zoo",
}


def whole(first, last):
    """Pages between two letters that run from top to bottom; tests/test_notebooks.py runs the tutorials."""
    pages = [page for page in PAGES if blocks(page) and page.parent.name != "tutorials"]
    pages = [page for page in pages if first <= page.stem[0].lower() <= last]
    marks = [pytest.mark.nightly if page.stem in NIGHTLY else pytest.mark.slow for page in pages]
    return pytest.mark.parametrize(
        "page", [pytest.param(page, id=page.stem, marks=mark) for page, mark in zip(pages, marks, strict=True)]
    )


@whole("a", "m")
def test_the_examples_of_pages_a_to_m_run_from_top_to_bottom(prepared):
    run_blocks(prepared)


@whole("n", "z")
def test_the_examples_of_pages_n_to_z_run_from_top_to_bottom(prepared):
    run_blocks(prepared)


IN_OTHER_TOOLS = {"adapters"}  # tests/programs/adapters.py runs them where the tools are


@pytest.mark.nightly
@pytest.mark.parametrize(
    "page", [page for page in PAGES if programs(page) and page.stem not in IN_OTHER_TOOLS], ids=lambda page: page.stem
)
def test_the_programs_of_a_page_run_by_its_commands(page, tmp_path):
    for name, content in programs(page):
        (tmp_path / name).write_text(short(content))
    folders = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": folders, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **FEW_OPTIMIZATIONS}
    assert {name for name, _ in programs(page)} == set(re.findall(r"python (\S+)", "\n".join(commands(page))))
    for command in commands(page):
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]


def test_the_new_loss_of_contributing_is_a_loss():
    loss = run_blocks(ROOT / "CONTRIBUTING.md", 1)["CosineHingeLoss"](margin=0.5)
    x = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    # 1 - 0.8 for the positive pair, max(0, s - 0.5) for the negatives at 0.6 and 0.96.
    assert float(loss(np.array([0, 0, 1]), x)) == pytest.approx((0.2 + 0.1 + 0.2 + 0.46 + 0.1 + 0.46) / 6)


def test_five_lines_of_the_door_find_the_neighbors_of_a_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first_minute(tmp_path)
    door = ROOT / "docs" / "index.md"
    lines = [line for line in blocks(door)[0].splitlines() if line and not line.startswith(("import ", "#"))]
    assert len(lines) == 5
    run_blocks(door, 1)
    assert "[['photos/class-03/15.jpg' " in capsys.readouterr().out


def test_own_photos_become_an_exported_model_in_at_most_25_lines():
    first = blocks(ROOT / "docs" / "photos.md")[0]
    assert "tfdml.datasets.folder(" in first
    assert "ExportBest(" in first
    assert len([line for line in first.splitlines() if line.strip()]) <= 25


@pytest.mark.parametrize("page", PAGES + LISTS, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_links_inside_the_repository_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("room", ["losses", "miners", "samplers", "callbacks", "layers", "evaluation", "addons"])
def test_every_public_class_of_a_room_is_in_a_page(room):
    text = "\n".join(page.read_text() for page in PAGES)
    module = getattr(tfdml, room)
    names = [name for name in module.__all__ if isinstance(getattr(module, name), type)]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []
