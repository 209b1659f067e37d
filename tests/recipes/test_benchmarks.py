"""The benchmarks of the papers from begin to end, on miniature copies in the original formats."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

import tfdml
from recipes import benchmarks as recipe
from tests.recipes import miniature

PROTOCOLS = {
    "cub": "cub200-2011/100-100/bbox-crop/v1",
    "cars": "cars196/98-98/full-image/v1",
    "sop": "sop/11318-11316/full-image/v1",
    "in_shop": "in-shop/3997-3985/query-gallery/v1",
}


def run(monkeypatch, root, dataset, method, *flags):
    """The results of a quick run on a miniature copy."""
    name, parts = getattr(miniature, dataset)(root / "data")
    monkeypatch.setitem(tfdml.datasets.readers.public.retrieval.COUNTS, name, parts)
    out = root / "out"
    words = ["--dataset", dataset, "--data", str(root / "data"), "--method", method, "--output", str(out)]
    monkeypatch.setattr("sys.argv", ["benchmarks", *words, "--quick", *flags])
    recipe.main()
    return json.loads((out / "results.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "method", "flags", "published"),
    [
        ("cub", "margin", ["--boxes"], 63.9),
        ("cars", "balanced", [], 69.18),
        ("sop", "raw-vthm", [], 78.18),
        ("in_shop", "dro-topk", [], 91.0),
    ],
)
def test_a_benchmark_runs_from_its_files_to_the_numbers_beside_the_published_ones(
    dataset, method, flags, published, tmp_path, monkeypatch, capsys
):
    results = run(monkeypatch, tmp_path, dataset, method, *flags)
    assert results["protocol"] == PROTOCOLS[dataset]
    assert (results["method"], results["seed"]) == (method, 0)
    assert results["published"]["1"] == published
    assert 0 <= results["recall"]["1"] <= results["recall"]["2" if dataset != "in_shop" else "1"] <= 100
    assert "tensorflow" in results["versions"]
    printed = capsys.readouterr().out
    assert str(published) in printed
    assert "its numbers say nothing" in printed
    model = keras.saving.load_model(tmp_path / "out" / "checkpoint.keras")
    assert model.steps == 4


@pytest.mark.slow
def test_queries_of_in_shop_are_searched_in_the_gallery(tmp_path, monkeypatch):
    name, parts = miniature.in_shop(tmp_path)
    monkeypatch.setitem(tfdml.datasets.readers.public.retrieval.COUNTS, name, parts)
    settings = recipe.smallest(recipe.METHODS["raw"]("in_shop"))
    _, query, gallery = recipe.read("in_shop", tmp_path, settings)
    images = keras.Input((32, 32, 3))
    by_color = keras.Model(images, keras.layers.GlobalAveragePooling2D()(images))
    found = recipe.recall_at(by_color, [query, gallery], (1, 10), "euclidean")
    assert found == {1: 100.0}  # each item has its color, and there are no ten images in the gallery


def test_the_settings_are_those_of_the_papers():
    batch = {
        (method, dataset): (settings.classes_per_batch * settings.examples_per_class, settings.dim, settings.size)
        for method in recipe.METHODS
        for dataset in recipe.RANKS
        for settings in [recipe.METHODS[method](dataset)]
    }
    assert batch["balanced", "cub"] == (64, 128, 224)
    assert batch["raw-vthm", "cub"] == batch["raw-vthm", "sop"] == (80, 512, 227)
    assert batch["margin", "sop"] == (80, 128, 224)
    assert batch["margin", "cub"] == (125, 128, 224)
    assert batch["dro-kl", "in_shop"] == (640, 1024, 227)
    assert recipe.METHODS["margin"]("cub boxes").fit == "pad"
    assert recipe.METHODS["raw"]("cars").examples_per_class == 5
    assert recipe.METHODS["raw"]("in_shop").examples_per_class == 4


@pytest.mark.parametrize("method", recipe.METHODS)
def test_the_loss_of_a_method_has_a_finite_gradient(method):
    labels = np.repeat(np.arange(8), 4)
    settings = recipe.smallest(recipe.METHODS[method]("cub"))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=8, examples_per_class=4)
    loss = settings.loss(sampler, labels)
    x = np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
    weights = tfdml.analysis.pair_weights(loss, x / np.linalg.norm(x, axis=1, keepdims=True), labels)
    assert np.isfinite(weights).all()
    assert np.abs(weights).sum() > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["balanced", "margin", "raw-vthm"])
def test_the_network_of_a_paper_is_built_with_its_size(method):
    settings = recipe.METHODS[method]("cub")
    model = recipe.compiled(settings, None, tfdml.losses.ContrastiveLoss())
    assert model.input_shape == (None, settings.size, settings.size, 3)
    assert model.output_shape == (None, settings.dim)


def test_options_that_no_paper_has_are_refused(monkeypatch, capsys):
    words = ["--dataset", "sop", "--data", "x", "--method", "margin"]
    for flags, reason in ((["--boxes"], "for cub and cars"), (["--quick", "--weights", "imagenet"], "random weights")):
        monkeypatch.setattr("sys.argv", ["benchmarks", *words, *flags])
        with pytest.raises(SystemExit):
            recipe.arguments()
        assert reason in capsys.readouterr().err


def test_recipes_read_nothing_but_what_tfdml_exports():
    for file in (Path(__file__).parents[2] / "recipes").glob("*.py"):
        text = file.read_text()
        assert "from tfdml" not in text, file
        assert "import tfdml." not in text, file
