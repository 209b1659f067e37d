"""Everything that is measured on a GPU, in minutes: losses, training steps and retrieval, JAX and PyTorch.

Losses are compiled by several processes at once, and one program runs at a time. Each part ends at its share of the
time; rows are written as they come, and the same command goes on with the losses that are missing. It needs JAX and
PyTorch, and no TensorFlow.

    bash tools/gpu.sh --minutes 6 --out FOLDER    # on a machine with a GPU
    bash tools/gpu.sh --quick --out FOLDER        # tiny sizes, on any machine

It writes gpu_losses.csv (JAX), gpu_torch.csv (ours and the peer on PyTorch) and gpu_steps.csv (fit, a network in
micro-batches, retrieval).
"""

import argparse
import contextlib
import csv
import importlib.metadata
import json
import os
import platform
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKERS_ENVIRONMENT = dict(os.environ)
os.environ |= {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}  # this process leaves the card to its workers

from _report import RESULTS, facts, format_cell, ratio, write_rows  # noqa: E402

import tfdml  # noqa: E402

WORKER = Path(__file__).with_name("_gpu_worker.py")
DIM = 512
# Important sizes first: a cut leaves a useful table.
SIZES = [4096, 65536, 16384, 1024, 32768]
FIRST = ["multi-similarity", "NT-Xent", "contrastive", "triplet, all", "FastAP", "CLIPLoss", "SigmoidLoss"]
PRECISE = ["contrastive", "multi-similarity", "NT-Xent", "triplet, all"]
OF_TORCH = [
    "contrastive",
    "multi-similarity",
    "circle",
    "NT-Xent",
    "SupCon",
    "batch hard",
    "generalized lifted",
    "FastAP",
]
OVER_CLASSES = (
    "Softmax",
    "CosFace",
    "ArcFace",
    "SphereFace",
    "MagFace",
    "P2SGrad",
    "Proxy",
    "SoftTriple",
    "CenterLoss",
)
# The latest end of each part, as a share of the time.
ENDS = {"losses": 0.46, "torch": 0.56, "compiled": 0.66, "fit": 0.74, "retrieval": 0.77, "network": 1.0}
TABLES = {"losses": "gpu_losses", "torch": "gpu_torch", "compiled": "gpu_torch"}  # gpu_steps for the others
COLUMNS = {
    "gpu_losses": "loss batch dim precision ours_ms three_products_ms ours_over_three_products peer_ms peer_over_ours "
    "compiler_mib device_mib compile_s value value_error gradient_error",
    "gpu_torch": "loss batch dim eager_ms compiled_ms peer_ms tiles_ms eager_mib compiled_mib peer_mib tiles_mib",
    "gpu_steps": "part way batch precision value unit mib note",
}
ABOUT = ["device", "measured", "versions", "hardware"]


class Worker:
    """A process of `_gpu_worker.py`, which imports at once and waits for its cases."""

    def __init__(self, part, options, log):
        command = [sys.executable, str(WORKER), part, *(["--quick"] if options.quick else [])]
        environment = {**WORKERS_ENVIRONMENT, "GPU_FOLDER": str(options.folder)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        self.process = subprocess.Popen(command, text=True, env=environment, **pipes)

    def close(self):
        """End the process; its memory of the card is free then."""
        self.process.kill()
        self.process.wait()


def answers(workers, cases, left):
    """The answers of processes, each with its list of cases, as they come, until all are there or the time is over."""
    with selectors.DefaultSelector() as selector:
        for worker, own in zip(workers, cases, strict=True):
            print(json.dumps(own), file=worker.process.stdin, flush=True)
            selector.register(worker.process.stdout, selectors.EVENT_READ)
        while selector.get_map() and left() > 0:
            for key, _ in selector.select(left()):
                if line := key.fileobj.readline():
                    yield json.loads(line)
                else:
                    selector.unregister(key.fileobj)
    for worker in workers:
        worker.close()


class Table:
    """Rows of a file, of this run and of those before, by their key; written after each change."""

    def __init__(self, path, keys):
        self.path, self.keys, self.columns = path, keys, [*COLUMNS[path.stem].split(), *ABOUT]
        before = csv.DictReader(path.read_text().splitlines()) if path.exists() else []
        self.rows = {tuple(row[key] for key in keys): row for row in before}

    def has(self, key, column):
        """Whether a number is there; text says why a case failed, and the case is tried again."""
        return is_number(self.get(*key).get(column, ""))

    def add(self, row):
        """Add a row, or columns of a row, and write the file."""
        key = tuple(str(row[key]) for key in self.keys)
        self.rows[key] = dict.fromkeys(self.columns, "") | self.rows.get(key, {}) | row
        self.rows[key] = {column: self.rows[key][column] for column in self.columns}
        write_rows(self.path, list(self.rows.values()))

    def get(self, *key):
        """The row of a key; empty where there is none."""
        return self.rows.get(tuple(map(str, key)), {})


def is_number(text):
    """Whether a text is a number."""
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


class Run:
    """The time, the tables and the words on the machine."""

    def __init__(self, options):
        self.options, self.begin, self.seconds = options, time.monotonic(), 60 * options.minutes
        keys = {
            "gpu_losses": "loss batch precision",
            "gpu_torch": "loss batch",
            "gpu_steps": "part way batch precision",
        }
        self.tables = {name: Table(options.out / f"{name}.csv", of.split()) for name, of in keys.items()}
        self.about = facts() | {"versions": versions()}
        self.device = ""

    def left(self, part):
        """Seconds until the end of a part."""
        return self.begin + ENDS[part] * self.seconds - time.monotonic()

    def add(self, name, row):
        """Add a row with the words on the machine."""
        self.device = row.get("device", self.device)
        self.tables[name].add({"device": self.device} | row | self.about)


def versions():
    """Versions of what may be there; `tfdml` need not be installed."""
    words = [f"python {platform.python_version()}", f"tfdml {tfdml.__version__}"]
    for name in ("keras", "numpy", "jax", "torch", "pytorch-metric-learning"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            words.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(words)


def names_of_losses(quick):
    """Losses in order: those that a cut should leave, then all others."""
    from _peers import OF_ADDONS, others, ours

    if quick:
        return ["multi-similarity", "CLIPLoss", "CosFaceLoss"]
    names = [name for name in [*ours(), *others(DIM, 4)] if name not in OF_ADDONS]
    return [*FIRST, *(name for name in names if name not in FIRST)]


def products_of(name):
    """The case of the products that a loss is compared with: with all rows of its batch, or with its proxies."""
    proxies = {"SubCenterArcFaceLoss": 3 * 4096, "SoftTripleLoss": 10 * 4096}
    over_classes = any(word in name for word in OVER_CLASSES)
    return f"products {proxies.get(name, 4096)}" if over_classes else "products"


def cases_of_losses(options, sizes):
    """Cases (loss, rows, dim, precision), the important ones first; the products are those that rows need."""
    dim = 16 if options.quick else DIM
    names = names_of_losses(options.quick)
    cases = []
    for size in sizes:
        cases += [[name, size, dim, "float32"] for name in names]
        if size in (4096, 16384) or options.quick:
            precise = names[:1] if options.quick else PRECISE
            cases += [[name, size, dim, p] for p in ("high", "fast") for name in precise]
    return cases


def table_of(run, part):
    """The table of a part."""
    return run.tables[TABLES.get(part, "gpu_steps")]


def place_of(part, case):
    """The key of the row of a case in the table of its part, and the column of its number."""
    if part == "losses":
        name, size, _, precision = case
        return (name, size, precision), "ours_ms"
    if part in TABLES:
        name, size, _, way = case
        return (name, size), f"{way}_ms"
    if part == "fit":
        return (part, *case), "value"
    if part == "retrieval":
        queries, rows, dim = case
        return (part, f"{rows} x {dim}", queries, "float32"), "value"
    rows, _, pixels, step = case
    return (part, f"{pixels} pixels, step {step}", rows, "bfloat16"), "value"


def missing(run, part, cases):
    """The cases without a number; all steps of the network, where one is missing."""
    missing = [case for case in cases if not table_of(run, part).has(*place_of(part, case))]
    return cases if part == "network" and missing else missing


def measure_part(run, part, workers, cases):
    """Rows of all cases of a part but the losses on JAX."""
    groups = [[case for case in cases if worker_of(str(case[0]), len(workers)) == i] for i in range(len(workers))]
    table = table_of(run, part)
    for answer in answers(workers, groups, lambda: run.left(part)):
        case = answer.pop("case")
        key, column = place_of(part, case)
        if part in TABLES:
            way = case[3]
            answer = {f"{way}_{name}" if name in ("ms", "mib") else name: x for name, x in answer.items()}
            answer["dim"] = case[2]
        row = dict(zip(table.keys, key, strict=True)) | {column: answer.pop("failed", "")} | answer
        run.add(table.path.stem, row)


def measure_losses(run, part, workers, cases):
    """Rows of losses on JAX, beside the products of their rows."""
    keys = dict.fromkeys((products_of(case[0]), *case[1:]) for case in cases)
    groups = [[case for case in cases if worker_of(case[0], len(workers) - 1) == i] for i in range(len(workers) - 1)]
    limits, rows = {}, []
    for answer in answers(workers, [*groups, list(keys)], lambda: run.left(part)):
        name, size, dim, precision = case = answer.pop("case")
        ms = answer.pop("ms", answer.pop("failed", ""))
        if name.startswith("products"):
            limits[tuple(case)] = ms
        else:
            rows.append({"loss": name, "batch": size, "dim": dim, "precision": precision, "ours_ms": ms, **answer})
            run.add("gpu_losses", rows[-1])
    for row in rows:
        limit = limits.get((products_of(row["loss"]), row["batch"], row["dim"], row["precision"]), "")
        ratios = {"three_products_ms": limit, "ours_over_three_products": ratio(row["ours_ms"], limit)}
        run.add("gpu_losses", row | ratios)


def worker_of(name, workers):
    """The worker of a loss, the same in every run."""
    return sum(map(ord, name)) % workers


def cases_of_torch(options):
    """Cases of eager and tiles, with the peer, and those of `torch.compile`."""
    dim = 16 if options.quick else DIM
    names = OF_TORCH[:1] if options.quick else OF_TORCH
    small, large = ([64], [128]) if options.quick else ([4096, 1024, 256, 64], [16384, 65536])
    eager = [[name, size, dim, way] for size in small for name in names for way in ("eager", "peer")]
    tiles = [[n, size, dim, way] for size in large for n in ("CLIPLoss", "SigmoidLoss") for way in ("tiles", "eager")]
    peers = [[name, size, dim, "peer"] for size in large[:1] for name in names]
    compiled = [[name, size, dim, "compiled"] for size in small for name in names]
    return eager[: 2 * len(names)] + tiles + eager[2 * len(names) :] + peers, compiled


def join_peers(run):
    """Peers of the same size beside the rows of losses."""
    table, torch = run.tables["gpu_losses"], run.tables["gpu_torch"]
    for row in list(table.rows.values()):
        peer = torch.get(row["loss"], row["batch"]).get("peer_ms", "")
        if peer != "" and row["precision"] == "float32":
            row["peer_ms"] = peer
            with contextlib.suppress(ValueError):
                row["peer_over_ours"] = float(peer) / float(row["ours_ms"])
            table.add(row)


def short_table(run):
    """A line for each loss with its times over the products at each size, and the other rows."""
    rows = [row for row in run.tables["gpu_losses"].rows.values() if row["precision"] == "float32"]
    sizes = sorted({int(row["batch"]) for row in rows})
    lines = [
        "ours over the three products on JAX (MiB by the compiler)",
        "loss".ljust(26) + "".join(f"{s:>16}" for s in sizes),
    ]
    for name in dict.fromkeys(row["loss"] for row in rows):
        cells = [run.tables["gpu_losses"].get(name, size, "float32") for size in sizes]
        lines.append(name[:25].ljust(26) + "".join(f"{short(cell):>16}" for cell in cells))
    for row in run.tables["gpu_losses"].rows.values():
        if row["precision"] != "float32":
            words = ("loss", "batch", "precision", "ours_ms", "value_error", "gradient_error")
            lines.append("  ".join(cell_of(row[word]) for word in words))
    lines.append("PyTorch, ms: eager, compiled, peer, tiles")
    for row in run.tables["gpu_torch"].rows.values():
        times = [cell_of(row[f"{way}_ms"])[:24] or "-" for way in ("eager", "compiled", "peer", "tiles")]
        lines.append(f"{row['loss']} {row['batch']}: " + "  ".join(times))
    for row in run.tables["gpu_steps"].rows.values():
        lines.append("  ".join(cell_of(value)[:60] for key, value in row.items() if key not in ABOUT))
    return "\n".join(lines)[-11_000:]


def short(row):
    """ "1.23 (456)", or why there is no number."""
    if not row:
        return "-"
    if row["ours_over_three_products"] == "":
        return cell_of(row["ours_ms"])[:15]
    return f"{float(row['ours_over_three_products']):.2f} ({float(row['compiler_mib']):.0f})"


def cell_of(value):
    """A number with four digits, also one that was read from a file."""
    return format_cell(float(value)) if is_number(value) else str(value)


def measure(run, log):
    """All parts, one after the other; their processes import meanwhile."""
    options = run.options
    many = 1 if options.quick else max(1, min(6, (os.cpu_count() or 2) // 2 - 1))
    eager, compiled = cases_of_torch(options)
    if not options.peers:
        eager = [case for case in eager if case[3] != "peer"]
    fits = [[way, size, p] for size in ([16] if options.quick else [128, 4096]) for p in ("float32", "bfloat16")
            for way in (("ours", "torch") if options.peers else ("ours",))]  # fmt: skip
    rows, size, pixels = (8, 4, 32) if options.quick else (32_768, 256, options.pixels)
    cases = {
        "losses": cases_of_losses(options, [64] if options.quick else SIZES),
        "torch": eager,
        "compiled": compiled,
        "fit": fits,
        "retrieval": [[256, 512, 16]] if options.quick else [[65_536, 1_000_000, 128]],
        "network": [[rows, size, pixels, step] for step in (1, 2, 3)],
    }
    left = {part: missing(run, part, cases[part]) for part in options.parts}
    counts = {"losses": many + 1, "compiled": 1 if options.quick else 4}
    started = {
        part: [Worker("torch" if part == "compiled" else part, options, log) for _ in range(counts.get(part, 1))]
        for part in cases
        if left.get(part)
    }
    for part, workers in started.items():
        (measure_losses if part == "losses" else measure_part)(run, part, workers, left[part])
        print(f"{part} after {time.monotonic() - run.begin:.0f} s", flush=True)
    join_peers(run)


def main():
    """Measure, and print a short table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, on any machine")
    parser.add_argument("--minutes", type=float, default=6.0, help="the time of all parts together")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the tables")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave pytorch-metric-learning out")
    parser.add_argument("--parts", nargs="+", default=[*ENDS])
    parser.add_argument("--pixels", type=int, default=224, help="of the images of the network")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options)
    log_file = Path(os.devnull) if options.quick else options.out / "gpu.log"
    with tempfile.TemporaryDirectory() as folder, log_file.open("w") as log:
        options.folder = Path(folder)
        (options.folder / "tuned").mkdir()
        measure(run, log if not options.quick else None)
    print(short_table(run))


if __name__ == "__main__":
    main()
