"""The search on folds of the glyphs, and the one opening of the test classes."""

import json
import runpy

import pytest

pytestmark = pytest.mark.slow


def test_it_chooses_settings_opens_the_test_classes_and_writes_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["cross_validation", "--quick", "--output", str(tmp_path)])
    runpy.run_module("recipes.cross_validation", run_name="__main__")
    (trial,) = [json.loads(path.read_text()) for path in tmp_path.glob("trial-*.json")]
    assert len(trial["folds"]) == 2
    assert 0 < trial["value"] < 1
    (opening,) = [json.loads(path.read_text()) for path in tmp_path.glob("opening-*.json")]
    assert opening["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/first-40"
    assert opening["settings"] == trial["settings"]
    printed = capsys.readouterr().out
    assert f"{100 * opening['concatenated']['map@r']['value']:.1f} [" in printed
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert opening["protocol"] in page
