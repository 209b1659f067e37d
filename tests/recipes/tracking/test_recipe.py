"""The recipe of tracking from begin to end, on a few clips, and on miniature copies of GOT-10k and OTB."""

import pytest

from recipes.tracking import __main__ as recipe
from recipes.tracking.data import benchmarks as readers
from tests.recipes.quick import results_of
from tests.recipes.tracking.miniatures import write_got10k, write_otb

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Function that runs the recipe with options and returns the results that it writes."""

    return lambda *words: results_of(monkeypatch, recipe, tmp_path / "runs", *words)


@pytest.fixture
def data(tmp_path, monkeypatch):
    counts = write_got10k(tmp_path / "GOT-10k", val=2) | write_otb(tmp_path / "OTB")
    monkeypatch.setattr(readers, "COUNTS", readers.COUNTS | counts)
    return tmp_path


def test_a_network_is_trained_and_followed_beside_a_template(run, tmp_path):
    results = run()
    assert results["protocol"] == "moving-pieces/photograph-disjoint/ope/frames-10-seed-0/v1"
    assert set(results["runs"]) == set(results["frames_per_second"]) == {"network", "template"}
    (template,) = results["runs"]["template"]
    assert 0.2 < template["success_area"] < 1
    assert len(template["success_of_clips"]) == template["sequences"] == 3
    assert (tmp_path / "runs/tracks.gif").stat().st_size > 1000


def test_the_validation_part_of_got10k_is_measured_without_first_and_hidden_frames(run, data):
    results = run("--data", data, "--dataset", "got10k")
    assert results["protocol"] == "got10k/val/ao/v1"
    for runs in results["runs"].values():
        (measures,) = runs
        assert (measures["sequences"], measures["frames"]) == (2, 2)  # the last of three; the second is hidden
        assert sum(measures["success_of_clips"]) / 2 == pytest.approx(measures["success_area"])


def test_otb_is_measured_in_all_frames_of_all_tracks(run, data):
    results = run("--data", data, "--dataset", "otb")
    assert results["protocol"] == "otb100/ope/v1"
    (template,) = results["runs"]["template"]
    assert (template["sequences"], template["frames"]) == (9, 27)
    assert template["success_area"] > 1 / 3  # the first of three frames is given
    assert len(results["runs"]["network"][0]["success_of_clips"]) == 9
