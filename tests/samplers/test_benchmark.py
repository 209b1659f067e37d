"""The benchmark of the samplers runs, and says what it measured on what."""

import csv
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "samplers.py"


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, "--quick", *arguments], capture_output=True, text=True)


def test_it_writes_a_row_for_every_way(tmp_path):
    done = run("--no-peers", "--output", tmp_path / "samplers.csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "samplers.csv").open()))
    assert [row["way"] for row in rows] == ["GroupSampler", "PKSampler", "shuffle().batch()"]
    for row in rows:
        assert float(row["images_per_second"]) == pytest.approx(64 * float(row["batches_per_second"]))
        assert float(row["first_batch_s"]) > 0
        assert re.search(r"tensorflow 2\.20", row["versions"])
        assert "cores" in row["hardware"]


@pytest.mark.skipif(importlib.util.find_spec("pytorch_metric_learning") is not None, reason="the peer is installed")
def test_it_says_how_to_get_a_peer_that_is_missing(tmp_path):
    done = run("--output", tmp_path / "samplers.csv")
    assert done.returncode == 1
    assert "Missing torch, pytorch_metric_learning" in done.stderr
    assert "benchmarks/requirements.lock" in done.stderr
    assert not (tmp_path / "samplers.csv").exists()
