"""Re-identification: glyphs with type designs as cameras, and both benchmarks from miniature copies."""

import pytest

from recipes import reidentification as recipe
from tests.recipes.miniature import photo, write
from tests.recipes.quick import results_of
from tfdml.datasets.public import reidentification as benchmarks


def market(root):
    names = {"bounding_box_train": [2, 7], "query": [1, 4], "bounding_box_test": [0, 1, 1, 4]}
    for folder, identities in names.items():
        for i, identity in enumerate(identities):
            for camera in (1, 2):
                photo(root / folder / f"{identity:04}_c{camera}s1_{i:06}_00.jpg", identity, 10 * i + camera)
    return {"train": (4, 2), "query": (4, 2), "gallery": (8, 3)}


def vehicles(root):
    lists = {"train_list": [7, 7, 12, 12], "test_list_800": [300, 300, 41, 41]}
    for name, identities in lists.items():
        write(root / f"train_test_split/{name}.txt", [f"{i}{len(name):06} {v}" for i, v in enumerate(identities)])
        for i, identity in enumerate(identities):
            photo(root / f"image/{i}{len(name):06}.jpg", identity, i)
    write(root / "attribute/model_attr.txt", ["7 249", "300 3"])
    return {**benchmarks.VEHICLE_COUNTS, "train": (4, 2), "800": (4, 2)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:For .* of the queries the first relevant item ties")  # after few steps
def test_both_methods_are_measured_by_every_refinement_with_a_picture(tmp_path, monkeypatch, capsys):
    record = results_of(monkeypatch, recipe, tmp_path)
    assert record["protocol"] == "glyphs/class-disjoint/designs-as-cameras/v1/first-60-classes"
    names = [f"{method}, {name}" for method in recipe.RATES for name in recipe.CHOSEN[method]]
    assert list(record["results"]) == names
    for runs in record["results"].values():
        assert 0.02 < runs[0]["map"] < runs[0]["cmc@10"] <= 1
    assert (tmp_path / "neighbors.png").read_bytes().startswith(b"\x89PNG")
    assert f"{100 * record['results']['batch hard, plain'][0]['cmc@1']:.1f}" in capsys.readouterr().out


@pytest.mark.slow
def test_market_is_trained_and_measured_beside_the_published_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks, "MARKET_COUNTS", market(tmp_path / "data"))
    record = results_of(monkeypatch, recipe, tmp_path, "--dataset", "market1501", "--data", tmp_path / "data")
    assert record["protocol"] == "market1501/751-750/single-query/v1"
    assert record["results"]["plain"][0]["queries"] == 4
    assert set(record["results"]) == {"plain", "k-reciprocal", "published"}
    assert record["results"]["published"] == [{"map": 0.6577, "cmc@1": 0.8469}]


@pytest.mark.slow
def test_vehicles_train_both_branches_and_are_measured_by_random_galleries(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks, "VEHICLE_COUNTS", vehicles(tmp_path / "data"))
    record = results_of(monkeypatch, recipe, tmp_path, "--dataset", "vehicle-id", "--data", tmp_path / "data")
    assert record["protocol"] == "vehicle-id/test-800/single-gallery-x10/v1"
    assert (record["results"]["plain"][0]["gallery"], record["results"]["plain"][0]["repeats"]) == (2, 10)
