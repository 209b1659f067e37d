"""Every benchmark runs, small and without its peers, and writes a table that says what it was measured on."""

import csv
import importlib
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from tests import FEW_OPTIMIZATIONS
from tests.small_networks import without_download

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.slow


def table_of(script, output, monkeypatch, *options, prepare=lambda module: None):
    """The rows of a quick run of a benchmark without peers, in this process, which has loaded TensorFlow."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr("sys.argv", [script, "--quick", *options, "--output", str(output / "table.csv")])
    monkeypatch.delitem(sys.modules, script, raising=False)
    module = importlib.import_module(script)
    prepare(module)
    module.main()
    rows = list(csv.DictReader((output / "table.csv").read_text().splitlines()))
    assert rows
    assert all("tensorflow" in row["versions"] and "cores" in row["hardware"] for row in rows)
    return rows


@pytest.mark.parametrize(
    ("script", "options", "columns"),
    [
        ("samplers", ["--no-peers"], {"images_per_second", "over_shuffle"}),
        ("loading", [], {"images_per_second", "over_tf_data"}),
        ("caches", [], {"images_per_second", "over_jpeg", "mib"}),
        ("jpeg_pixels", [], {"ms", "over_fast", "mean_difference", "largest_difference"}),
        ("photo_loading", [], {"images_per_second", "over_tf_data"}),
        ("miners", ["--no-peers"], {"graph_loss_ms", "xla_mined_ms", "xla_added"}),
        ("robust", [], {"graph_ms", "xla_ms"}),
        ("clustering", [], {"seconds", "nmi", "ami", "f1"}),
        ("ranks", [], {"way", "seconds", "cpu_seconds"}),
        ("compare", ["--no-peers"], {"work", "way", "seconds", "over_first", "peak_mib"}),
        ("fit", [], {"ours_ms", "softmax_ms", "ours_over_softmax"}),
        ("steps_per_execution", [], {"backend", "steps_1_ms", "steps_8_ms", "saved"}),
        ("devices", [], {"divided", "processes", "devices", "ms", "over_one"}),
        ("duplicates", [], {"pairs", "share_of_exact", "recall_lower", "processor_s"}),
        ("filters", ["--shares", "1", "0.1", "--repeats", "1"], {"share", "effort", "recall@10", "over_exact"}),
        ("databases", ["--databases", "lancedb"], {"form", "largest_error", "recall@10"}),
        ("stored_small", [], {"codes", "of_float32", "lost", "over_float32"}),
        ("recall_check", [], {"per_second", "ms", "checked ms", "ratio", "low", "high"}),
        ("distributed", ["--parts", "join", "retrieval"], {"work", "wall_s", "rate", "note"}),
        ("search_on_disk", ["--queries", "50", "--k", "5"], {"seconds", "product_s", "peak_mib"}),
        ("export", ["--repeats", "1"], {"what", "ms", "beside_ms", "ratio", "recall@10"}),
        ("runtimes", ["--repeats", "1"], {"runtime", "ms", "mib", "embedding_error", "same_ten", "recall@10"}),
        ("runtimes", ["--what", "items", "--repeats", "1"], {"runtime", "ms", "same_ten", "recall@10"}),
        ("runtimes", ["--what", "boxes"], {"runtime", "boxes", "same values", "same boxes", "ms"}),
        ("quantized_weights", [], {"weights", "share", "error", "lost", "interval"}),
        ("blocks", [], {"anchors_per_block", "peak_mib", "step_s"}),
        ("micro_batches", [], {"peak_mib", "step_s"}),
        ("tuning", [], {"trained", "trained_percent", "optimizer_mib", "peak_mib", "step_s"}),
        ("upgrade", [], {"queries", "gallery", "recall@1", "gain kept"}),
        ("startup", [], {"what", "processor_s", "wall_s"}),
        ("train", [], {"before_s", "training_s", "outputs_s", "minutes"}),
        ("lora_ranks", [], {"weights", "rank_1_percent", "largest_rank", "largest_rank_percent"}),
        ("fit", ["--backbone", "MobileNet"], {"ours_over_softmax", "cpu_ours_over_softmax"}),
    ],
)
def test_a_benchmark_runs_small_and_without_peers(script, options, columns, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.applications, "MobileNet", without_download(keras.applications.MobileNet))
    rows = table_of(script, tmp_path, monkeypatch, *options)
    assert columns <= set(rows[0])


def test_servers_answer_under_load_and_rows_replace_those_of_the_table(tmp_path, monkeypatch):
    rows = table_of("serving", tmp_path, monkeypatch, "--servers", "tfdml")
    assert [row["work"] for row in rows] == ["photos", "searches", "mixture"]
    assert {(row["wrong"], row["unrefused"]) for row in rows} == {("0", "0")}
    assert min(int(row["requests"]) for row in rows) > 0
    rows = table_of("serving", tmp_path, monkeypatch, "--servers", "onnxruntime", "--work", "searches")
    assert [row["server"] for row in rows] == ["tfdml"] * 3 + ["onnxruntime"]
    assert rows[-1]["wrong"] == "0"


def test_losses_are_measured_each_way(tmp_path, monkeypatch):
    def only_xla_in_a_process_of_its_own(losses):
        worker, of_its_own = importlib.import_module("_loss_worker"), losses.Way

        class InThisProcess:
            gave_up = None

            def __init__(self, way, loss):
                self.prepare = worker.way(way, loss)

            def ask(self, request, patience=None):
                if request == "call":
                    self.run()
                    return 1e-3
                self.run = self.prepare(*worker.batch(request["batch"], request["dim"]))
                return {"value": self.run(), "mebibytes": 1.0}

            def close(self):
                pass

        monkeypatch.setattr(losses, "Way", lambda way, loss: (of_its_own if way == "xla" else InThisProcess)(way, loss))

    (row,) = table_of("losses", tmp_path, monkeypatch, "--no-peers", prepare=only_xla_in_a_process_of_its_own)
    assert (row["loss"], row["batch"], row["dim"]) == ("multi-similarity", "64", "16")
    assert float(row["xla_ms"]) > 0
    assert float(row["xla_mib"]) > 0
    assert {"graph_ms", "three_products_ms", "graph_over_three_products", "graph_mib"} <= set(row)


def test_proxies_are_measured_each_way_and_in_training_steps(tmp_path, monkeypatch):
    def in_this_process(proxies):
        worker = importlib.import_module("_proxy_worker")

        class InThisProcess:
            gave_up = None

            def __init__(self, way, worker_file):
                self.prepare = worker.WAYS[way]()

            def ask(self, request, patience=None):
                if request == "call":
                    return 1e-3
                return {"value": self.prepare(request)(), "mebibytes": 1.0}

            def close(self):
                pass

        monkeypatch.setattr(proxies, "Way", lambda way, worker: InThisProcess(way, worker))

    rows = table_of("proxies", tmp_path, monkeypatch, "--no-peers", prepare=in_this_process)
    assert [row["way"] for row in rows] == ["eager", "graph", "xla", "three_products", "three_products_xla"]
    steps = list(csv.DictReader((tmp_path / "table_steps.csv").read_text().splitlines()))
    assert [(row["sampled"], row["optimizer"]) for row in steps] == [
        ("0", "sgd"),
        ("0", "adam"),
        ("10", "sgd"),
        ("10", "adam"),
    ]


def test_ways_of_retrieval_agree(tmp_path, monkeypatch):
    def only_ours_in_a_process_of_its_own(retrieval):
        of_its_own = retrieval.run
        run = {"tfdml": of_its_own}
        monkeypatch.setattr(retrieval, "run", lambda data, way: run.get(way, retrieval.measure)(data, way))

    rows = table_of("retrieval", tmp_path, monkeypatch, "--no-peers", prepare=only_ours_in_a_process_of_its_own)
    found = {row["way"]: row for row in rows}
    assert list(found) == ["matrix product alone", "tfdml", "tfdml, map too", "scann brute force", "scann default"]
    assert float(found["tfdml"]["over_ours"]) == 1
    assert all(float(row["seconds"]) > 0 for row in rows)
    assert found["tfdml"]["map@r"] == found["tfdml, map too"]["map@r"]


def test_approximate_search_is_timed_at_a_recall_that_is_measured(tmp_path, monkeypatch):
    exact, scann = table_of("search", tmp_path, monkeypatch, "--repeats", "1")
    assert (exact["way"], scann["way"]) == ("exact", "scann")
    assert float(exact["over_exact"]) == float(exact["recall@10"]) == 1
    assert float(scann["recall@10"]) > 0.9
    assert int(scann["leaves_to_search"]) > 0


def test_everything_on_a_gpu_runs_small_on_a_cpu_and_resumes(tmp_path):
    command = ["bash", str(BENCHMARKS.parent / "tools" / "gpu.sh"), "--quick", "--minutes", "10", "--no-peers"]
    parts = ["--parts", "losses", "retrieval", "network", "--out", str(tmp_path)]
    environment = {**os.environ, **FEW_OPTIMIZATIONS, "PYTHON": sys.executable}
    tables = []
    for _ in range(2):
        done = subprocess.run([*command, *parts], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        tables.append([(tmp_path / f"gpu_{name}.csv").read_text() for name in ("losses", "steps")])
    assert tables[0] == tables[1]
    losses, steps = (list(csv.DictReader(text.splitlines())) for text in tables[0])
    assert [row["precision"] for row in losses] == ["float32"] * 3 + ["high", "fast"]
    assert all(float(row["ours_over_three_products"]) > 0 and float(row["compiler_mib"]) > 0 for row in losses)
    assert [row["part"] for row in steps] == ["retrieval", *["network"] * 3]
    assert all(float(row["value"]) > 0 and row["device"] and "cores" in row["hardware"] for row in steps)


def test_the_page_of_speed_has_a_row_a_loss_and_marks_older_numbers_of_a_gpu(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    speed = importlib.import_module("speed")
    for name, day in (("losses", "2026-02-01"), ("gpu_losses", "2026-01-01")):
        rows = [
            {"loss": loss, "batch": batch, "dim": 512, "device": "a card", "measured": day}
            | {"graph_ms": batch, "xla_ms": 2 * batch, "peer_ms": 3 * batch, "three_products_ms": batch / 2}
            | {"graph_over_three_products": 2.0, "xla_over_three_products": 4.0, "ours_over_three_products": 5.0}
            | {"peer_over_graph": 3.0, "peer_over_xla": 1.5, "peer_over_ours": "out of memory"}
            | {"versions": "numpy 2", "hardware": "2 cores"}
            for loss in ("FastAP", "batch hard")
            for batch in (64, 256, 1024, 4096, 16384)
        ]
        speed.write_rows(tmp_path / f"{name}.csv", rows)
    options = ["--results", str(tmp_path), "--pictures", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["speed", *options])
    speed.main()
    batch_hard, fast_ap = csv.DictReader((tmp_path / "speed.csv").read_text().splitlines())
    assert (batch_hard["family"], fast_ap["family"]) == ("triplets", "ranking")
    assert (fast_ap["to_limit_64"], fast_ap["peer_to_ours_4096"]) == ("2.0", "3.0")
    assert (fast_ap["gpu_to_limit_4096"], fast_ap["gpu_peer_to_ours_4096"]) == ("5.0", "")
    assert fast_ap["gpu"] == "a card, 2026-01-01 (older)"
    assert {"speed-triplets.png", "speed-ranking.png"} <= {path.name for path in tmp_path.iterdir()}
