"""Verification of glyphs, and of faces in miniature copies of CASIA-WebFace and LFW."""

import numpy as np
import pytest

from recipes.faces import __main__ as recipe
from recipes.faces import casia
from tests.datasets.public.miniatures import jpeg, write_lfw
from tests.recipes.faces.miniatures import write_casia
from tests.recipes.quick import results_of
from tfdml.datasets.public import faces as benchmarks

pytestmark = pytest.mark.slow


def test_a_network_is_tuned_and_its_decisions_are_written(tmp_path, monkeypatch, capsys):
    record = results_of(monkeypatch, recipe, tmp_path)
    assert record["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/first-40-classes/400-pairs-2-folds"
    methods = ["networks for search", "margin loss"]
    assert list(record["results"]) == [
        "pixels",
        *[name for method in methods for name in (method, f"{method}, relative")],
    ]
    assert record["results"]["margin loss"][0]["accuracy"] > 0.85
    assert set(record["thresholds"]) == {"0", "1"}
    assert (tmp_path / "faces.png").stat().st_size > 10_000
    assert f"{100 * record['results']['margin loss'][0]['accuracy']:.2f}" in capsys.readouterr().out


def test_faces_are_read_aligned_and_decided_from_the_original_files(tmp_path, monkeypatch):
    data, output = tmp_path / "data", tmp_path / "runs"
    monkeypatch.setitem(casia.COUNTS, "folders", write_casia(data / "CASIA-WebFace", jpeg))
    lfw, lists = write_lfw(data / "LFW", jpeg)
    monkeypatch.setattr(benchmarks, "COUNTS", lfw)
    monkeypatch.setattr(benchmarks, "LISTS", lists)
    detected = np.array([[8.2, 11.1], [15.8, 11.0], [12.0, 15.4], [8.9, 19.8], [15.2, 19.8]])  # of a detector
    output.mkdir()
    np.save(output / "casia-points.npy", np.repeat(detected[None], 12, axis=0))
    np.save(output / "lfw-points.npy", np.where(np.arange(6)[:, None, None] == 1, np.nan, detected))

    record = results_of(monkeypatch, recipe, output, "--data", data)
    assert record["protocol"] == "lfw/view2/10-fold/v1/4-pairs-2-folds"  # with the pair of the image without a face
    assert record["images_without_face"] == {"casia": 0, "lfw": 1}
    assert set(record["results"]) == {"pixels", "margin loss", "margin loss, relative"}
    assert set(record["results"]["margin loss"][0]) == {"accuracy", "accuracy_se", "auc", "eer"}
    assert set(record["thresholds"]) == {"0", "1"}
    assert (output / "faces.png").stat().st_size > 10_000
