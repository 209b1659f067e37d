"""Every measured number says the code that it was measured with."""

import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def tool(name):
    """A script of `tools` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stale():
    return tool("stale")


def test_every_file_of_results_is_recorded_as_it_is(stale):
    manifest = stale.read_manifest(ROOT)
    assert stale.unrecorded(ROOT, manifest) == [], "after a measurement: python tools/stale.py --record"
    assert sorted(manifest) == stale.results(ROOT)
    assert (ROOT / stale.PAGE).read_text() == stale.page(ROOT, manifest)
    assert all(entry["code"] for entry in manifest.values())


@pytest.fixture
def project(stale, tmp_path):
    """A project of one benchmark, one room and one result, measured on a day."""
    for path, text in {
        "benchmarks/speed.py": "import tfdml\ntfdml.losses.fast()\n",
        "results/speed.csv": "seconds\n1\n",
        "tfdml/losses/fast.py": '"""Fast."""\n\n\ndef fast():\n    """Be fast."""\n    return 1\n',
        "tfdml/metrics/other.py": "x = 1\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_only_changed_code_of_the_named_rooms_makes_a_number_stale(stale, project):
    entry = stale.record(project, "speed.csv", "2026-11-25")
    assert stale.command(project, "speed.csv") == "python benchmarks/speed.py"
    assert list(entry["code"]) == ["losses"]
    code = project / "tfdml" / "losses" / "fast.py"
    code.write_text('"""Very fast."""\n\n\ndef fast():\n    """Be very fast."""\n    return 1  # one\n')
    (project / "tfdml" / "metrics" / "other.py").write_text("x = 2\n")
    assert stale.changed_rooms(project, entry) == []
    code.write_text(code.read_text().replace("return 1", "return 2"))
    assert stale.changed_rooms(project, entry) == ["losses"]
    shutil.rmtree(code.parent)
    assert stale.changed_rooms(project, entry) == ["losses"]
    (project / "tfdml" / "losses.py").write_text("def fast(): return 1\n")
    assert stale.changed_rooms(project, entry) == ["losses"]


def test_the_code_of_a_folder_of_recipes_makes_its_numbers_stale(stale, project):
    code = project / "recipes" / "tracking" / "data" / "clip.py"
    code.parent.mkdir(parents=True)
    code.write_text("import tfdml\ntfdml.losses.fast()\n")
    (project / "results" / "tracking").mkdir()
    (project / "results" / "tracking" / "test.csv").write_text("seconds\n1\n")
    entry = stale.record(project, "tracking/test.csv", "2026-11-25")
    assert list(entry["code"]) == ["losses", "recipes/tracking"]
    code.write_text("import tfdml\ntfdml.losses.fast(1)\n")
    assert stale.changed_rooms(project, entry) == ["recipes/tracking"]


def test_a_result_that_was_measured_again_has_to_be_recorded(stale, project):
    manifest = {"speed.csv": stale.record(project, "speed.csv", "2026-11-25")}
    assert stale.unrecorded(project, manifest) == []
    (project / "results" / "speed.csv").write_text("seconds\n2\n")
    assert stale.unrecorded(project, manifest) == ["speed.csv"]
