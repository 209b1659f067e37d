"""Every benchmark runs, small and without its peers, and writes a table that says what it was measured on."""

import csv
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("script", "options", "columns"),
    [
        ("losses.py", ["--no-peers"], {"graph_ms", "xla_ms", "three_products_ms"}),
        ("gpu_losses.py", ["--no-peers"], {"ours_ms", "three_products_ms", "device"}),
        ("samplers.py", ["--no-peers"], {"images_per_second", "over_shuffle"}),
        ("loading.py", [], {"images_per_second", "over_tf_data"}),
        ("retrieval.py", ["--no-peers"], {"seconds"}),
        ("miners.py", ["--no-peers"], {"graph_loss_ms", "xla_mined_ms", "xla_added"}),
        ("robust.py", [], {"graph_ms", "xla_ms"}),
        ("fit.py", [], {"ours_ms", "softmax_ms", "ours_over_softmax"}),
    ],
)
def test_a_benchmark_runs_small_and_without_peers(script, options, columns, tmp_path):
    output = tmp_path / "table.csv"
    command = [sys.executable, str(BENCHMARKS / script), "--quick", *options, "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(output.read_text().splitlines()))
    assert rows
    assert columns | {"versions", "hardware"} <= set(rows[0])
    assert all("tensorflow" in row["versions"] and "cores" in row["hardware"] for row in rows)


def test_a_missing_peer_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    report = importlib.import_module("_report")
    with pytest.raises(SystemExit, match="Missing no_such_peer"):
        report.require_peers("numpy", "no_such_peer")
