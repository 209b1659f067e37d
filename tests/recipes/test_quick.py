"""A quick run of each recipe: its protocol, its results, the files that it leaves, and the numbers that it prints."""

import importlib
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml

GLYPHS = "glyphs/class-disjoint/exact-cosine/v1"


def compared(record, folder):
    """Models of the zoo are better than pixels."""
    models = ["pixels", *importlib.import_module("recipes.compare").MODELS]
    assert list(record["means"]) == models
    assert [pair["better"] for pair in record["pairs"][:4]] == models[1:]


def cleaned(record, folder):
    """Verified copies are found without wrong pairs, crops better than by hashes, and planted leaks."""
    verified = record["results"]["verified"]
    assert verified["precision"][0] >= 0.95
    assert verified["crop"][0] > record["results"]["pHash"]["crop"][0]
    assert set(record["planted"]) == {"leak", "duplicate", "label", "outlier"}
    assert record["planted"]["leak"]["right"] > 0


def reranked(record, folder):
    """A model of pairs improves a search, and is exported."""
    recalls = record["recall@1"]
    assert 0 < recalls["search"][0] < recalls["model of pairs"][0] < 1
    images = np.zeros((2, 32, 32, 1), "uint8")
    assert tfdml.export.load(folder / "export").predict_on_batch((images, images)).shape == (2,)


def sketched(record, folder):
    """Towers find characters by outlines, and are exported."""
    shared = record["results"]["shared"][0]["recall@1"]
    assert shared > 0.1  # of 40 classes
    images = tf.zeros((2, 32, 32, 1), "uint8")
    for kind in ("shared", "separate"):
        for tower in ("query", "gallery"):
            served = tf.saved_model.load(str(folder / kind / tower)).signatures["serving_default"](images=images)
            assert served["embedding"].shape == (2, 128)
    return shared


def captioned(record, folder):
    """Both losses find captions, and their models return unit vectors of texts."""
    for name, (run,) in record["results"].items():
        assert run["recall@10"] > 10 * run["chance"]
        texts = keras.saving.load_model(folder / f"{name}.keras").towers[1]
        lengths = np.linalg.norm(texts.predict(np.ones((2, 16), "int64"), verbose=0), axis=1)
        np.testing.assert_allclose(lengths, 1, rtol=1e-4)
    return record["results"]["softmax"][0]["recall@1"]


def few_shots(record, folder):
    """A model of the zoo, which is trained, tells 100 characters apart."""
    assert record["results"]["zoo, best model"]["100-way 1-shot apart"]["accuracy"] > 0.8
    assert record["results"]["pixels"]["5-way 1-shot"]["accuracy"] > 0.2
    return record["results"]["metric"]["5-way 5-shot"]["accuracy"]


def localized(record, folder):
    """Pixels find tiles better than at random, and 1% of 40 is 1."""
    results = record["results"]
    assert results["pixels"][0]["recall@5"] > 2 * 5 / 40
    assert results["shared"][0]["recall@1%"] == results["shared"][0]["recall@1"]
    return results["shared"][0]["recall@1%"]


def products_found(record, folder):
    """Two architectures find some of about 700 products, and their difference has an interval."""
    mean, low, high = record["D - A, recall@1"]
    assert low <= mean <= high
    values = [record["results"][kind][0]["recall@10"] for kind in "AD"]
    assert min(values) > 10 / 700
    return values[1]


def tuned(record, folder):
    """The shares of the weights that each way trains."""
    trained = [row["trained"] for row in record["results"].values()]
    assert trained[:2] == [0, 0]
    assert 0 < trained[2] < trained[3] == 1
    return record["results"]["LoRA"]["map@r"]


def patches_compared(record, folder):
    """Rates of pairs of patches."""
    assert (record["pairs"], record["loss"], record["hard_pairs"]) == (1_000, "multi-similarity", False)
    assert all(0 < values["fpr95"] <= 1 for values in record["results"].values())


def stereo_matched(record, folder):
    """Cross-correlation has its documented error on the motorcycle pair."""
    assert record["pixels"] == 308_397
    assert record["bad"]["window 9"] == pytest.approx(0.0785, abs=5e-5)
    assert record["interval"]["window 9"][0] < 0.0785 < record["interval"]["window 9"][1]
    assert record["difference"][1] <= record["difference"][0] <= record["difference"][2]
    return 0.079


def identified(record, folder):
    """All refinements of both methods are measured."""
    recipe = importlib.import_module("recipes.reidentification")
    names = [f"{method}, {name}" for method in recipe.RATES for name in recipe.CHOSEN[method]]
    assert list(record["results"]) == names
    for runs in record["results"].values():
        assert 0.02 < runs[0]["map"] < runs[0]["cmc@10"] <= 1
    return record["results"]["batch hard, plain"][0]["cmc@1"]


def verified(record, folder):
    """A network that is tuned for verification decides most pairs of each fold."""
    assert set(record["thresholds"]) == {"0", "1"}
    assert record["results"]["margin loss"][0]["accuracy"] > 0.85


def tracked(record, folder):
    """A template follows its target in three clips."""
    assert set(record["runs"]) == set(record["frames_per_second"]) == {"network", "template"}
    (template,) = record["runs"]["template"]
    assert 0.2 < template["success_area"] < 1
    assert len(template["success_of_clips"]) == template["sequences"] == 3


# Recipe: its protocol, the names of its results in their order, the files that it leaves, and what else holds of its
# record and its folder; the share that this returns is printed in percent.
RECIPES = {
    "compare": (None, None, [], compared),
    "cleaning": (None, {"verified", "network", "pHash", "dHash"}, ["report/report.html", "pairs.png"], cleaned),
    "reranking": (f"{GLYPHS}/first-40-classes/100-queries", None, ["reranking.png"], reranked),
    "sketches": (
        f"{GLYPHS}/first-40-classes/outlines-against-other-designs",
        {"pixels", "shared", "separate"},
        [],
        sketched,
    ),
    "captions": (None, {"softmax", "sigmoid"}, [], captioned),
    "few_shot": (
        f"{GLYPHS}/100-classes",
        {"pixels", "cross-entropy", "metric", "prototypical", "zoo, best model"},
        ["episode.png"],
        few_shots,
    ),
    "localization": (None, ["pixels", "separate", "shared"], ["localization.png"], localized),
    "product_search": (f"{GLYPHS}/quick/scenes-against-products", ["A", "D"], ["product-search.png"], products_found),
    "things": (
        "things/photograph-disjoint-validation/exact-cosine/v1",
        ["as it is", "linear head", "LoRA", "all"],
        ["things.png"],
        tuned,
    ),
    "patches": (
        "photo-patches/photograph-disjoint/exact-cosine/v1/40",
        {"pixels", "descriptor", "2-channel"},
        ["patches.png"],
        patches_compared,
    ),
    "patches.dense_stereo": ("motorcycle-stereo/left-dense/bad3/v1", None, ["stereo.png"], stereo_matched),
    "reidentification": (
        "glyphs/class-disjoint/designs-as-cameras/v1/first-60-classes",
        None,
        ["neighbors.png"],
        identified,
    ),
    "faces": (
        f"{GLYPHS}/first-40-classes/400-pairs-2-folds",
        [
            "pixels",
            *("networks for search", "networks for search, relative"),
            *("margin loss", "margin loss, relative"),
        ],
        ["faces.png"],
        verified,
    ),
    "tracking": (
        "moving-pieces/photograph-disjoint/ope/frames-10-seed-0/v1",
        None,
        ["tracks.gif"],
        tracked,
    ),
}
FOLDERS = {"localization", "product_search", "patches", "faces", "tracking"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:For .* of the queries the first relevant item ties")  # after few steps
@pytest.mark.parametrize("name", RECIPES)
def test_a_quick_run_leaves_its_results_and_prints_them(name, tmp_path, monkeypatch, capsys):
    protocol, results, files, check = RECIPES[name]
    if name == "cleaning":
        pytest.importorskip("imagehash")
    module = importlib.import_module(f"recipes.{name}.__main__" if name in FOLDERS else f"recipes.{name}")
    folder = tmp_path / "out"
    monkeypatch.setattr("sys.argv", [name, "--quick", "--output", str(folder)])
    module.main()
    record = json.loads((folder / ("evaluation.json" if name == "compare" else "results.json")).read_text())
    assert protocol in (None, record.get("protocol"))
    assert results is None or type(results)(record["results"]) == results
    for file in files:
        assert (folder / file).stat().st_size > 1000
    share = check(record, folder)
    printed = capsys.readouterr().out
    assert share is None or f"{100 * share:.1f}" in printed
