"""Search across two domains: products in scenes, and tiles of a map, from embedded data and from tables."""

import csv
import json
import runpy
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

RECIPES = Path(__file__).parents[2] / "recipes"

pytestmark = pytest.mark.slow


def run(name, monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", [name, "--quick", *map(str, arguments)])
    runpy.run_path(str(RECIPES / f"{name}.py"), run_name="__main__")


def table_of(folder, domains):
    """A table of 16 classes in each split: flat images of a color of the class, which both domains share."""
    lines = []
    for split in ("train", "validation", "test"):
        for label in range(16):
            for domain in domains:
                for copy in range(2):
                    path = f"{split}-{label}-{domain}-{copy}.png"
                    color = np.random.default_rng([label, len(split)]).integers(0, 256, 3)
                    Image.fromarray(np.full((32, 32, 3), color, np.uint8)).save(folder / path)
                    lines.append([path, f"{split} {label}", domain, f"kind {label % 3}", split])
    with open(folder / "photos.csv", "w", newline="") as file:
        csv.writer(file).writerows([["path", "label", "domain", "category", "split"], *lines])
    return folder / "photos.csv"


def test_two_of_four_architectures_search_products_from_scenes(tmp_path, monkeypatch, capsys):
    run("product_search", monkeypatch, "--output", tmp_path)
    record = json.loads((tmp_path / "results.json").read_text())
    assert list(record["results"]) == ["A", "D"]
    assert record["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/quick/scenes-against-products"
    low, high = record["D - A, recall@1"][1:]
    assert low <= record["D - A, recall@1"][0] <= high
    values = [record["results"][kind][0]["recall@10"] for kind in "AD"]
    assert f"{100 * values[1]:.1f}" in capsys.readouterr().out
    assert min(values) > 10 / 700  # of about 700 products
    assert (tmp_path / "product-search.png").stat().st_size > 10_000


def test_towers_find_tiles_from_photos(tmp_path, monkeypatch, capsys):
    run("localization", monkeypatch, "--output", tmp_path)
    record = json.loads((tmp_path / "results.json").read_text())
    assert list(record["results"]) == ["pixels", "separate", "shared"]
    assert record["results"]["pixels"][0]["recall@5"] > 2 * 5 / 40  # better than at random
    assert record["results"]["shared"][0]["recall@1%"] == record["results"]["shared"][0]["recall@1"]  # 1% of 40 is 1
    assert "recall@1%" in capsys.readouterr().out
    assert (tmp_path / "localization.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("name", "domains"), [("product_search", ("scene", "product")), ("localization", ("photo", "tile"))]
)
def test_a_table_of_two_domains_is_read(name, domains, tmp_path):
    data = table_of(tmp_path, domains)
    train, validation, test = runpy.run_path(str(RECIPES / f"{name}.py"))["from_table"](
        Namespace(data=data, image_size=32)
    )
    if name == "product_search":
        train, categories = train
        np.testing.assert_array_equal(categories, [int(label.split()[1]) % 3 for label in train[0].class_names])
    for split, pair in (("train", train), ("validation", validation), ("test", test)):
        assert pair[0].class_names == pair[1].class_names
        for half, domain in zip(pair, domains, strict=True):
            assert len(half) == 32
            assert all(f"{split}-" in path and f"-{domain}-" in path for path in half.paths)
