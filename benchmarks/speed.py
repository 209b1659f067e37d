"""One page of the speed of losses: ours to the limit, ours to the peer, and pictures of time over batch size.

    python benchmarks/speed.py             # from results/losses.csv, and results/gpu_losses.csv where it is there
    python benchmarks/speed.py --pictures FOLDER

It writes results/speed.csv, of which `python -m studies.tables` makes the table of docs/speed.md, and a picture for
each family of losses, in seconds. The limit are the three products that any loss over pairs needs. Numbers of a GPU
that are older than those of the CPU are marked.
"""

import argparse
import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from _peers import ours
from _report import RESULTS, write_rows

DOCS = Path(__file__).parents[1] / "docs"
DIM = 512
BATCHES = [64, 256, 1024, 4096]  # with the peer
LARGE = 16384  # in blocks of anchors, without it, of some losses
WAYS = {"three_products": "limit", "graph": "graph", "xla": "XLA", "peer": "peer"}
STYLES = {"three_products": "k:", "graph": "C0o-", "xla": "C1s-", "peer": "C3^--"}


def measured(path):
    """The rows of a file of results at 512 dimensions: (loss, batch) -> row; none where there is no file."""
    rows = csv.DictReader(path.read_text().splitlines()) if path.exists() else []
    rows = [row for row in rows if int(row["dim"]) == DIM and row.get("precision", "float32") == "float32"]
    return {(row["loss"], int(row["batch"])): row for row in rows}


def family(name):
    """The family of a loss: the folder that it is in."""
    words = type(ours()[name]).__module__.split(".")
    return words[2] if words[1] == "losses" else words[1]


def number(text):
    """A cell as a number; nothing where it is empty or says why there is none."""
    try:
        return float(text)
    except ValueError:
        return ""


def summary(name, cpu, gpu):
    """A row of the page: at each batch the best of both modes to the limit and to the peer, and the same on a GPU."""
    row = {"family": family(name), "loss": name}
    for batch in [*BATCHES, LARGE]:
        cells = cpu.get((name, batch), {})
        ratios = [float(cells[f"{way}_over_three_products"]) for way in ("graph", "xla") if cells]
        row[f"to_limit_{batch}"] = min(ratios, default="")
    for batch in BATCHES:
        ratios = [number(cpu[name, batch][f"peer_over_{way}"]) for way in ("graph", "xla")]
        row[f"peer_to_ours_{batch}"] = max(ratios) if all(ratios) else cpu[name, batch]["peer_ms"]
    cells = gpu.get((name, BATCHES[-1]), {})
    row["gpu_to_limit_4096"] = number(cells.get("ours_over_three_products", ""))
    row["gpu_peer_to_ours_4096"] = number(cells.get("peer_over_ours", ""))
    row["gpu"] = card(cells, cpu[name, BATCHES[-1]])
    return row | {key: cpu[name, BATCHES[-1]][key] for key in ("measured", "versions", "hardware")}


def card(gpu, cpu):
    """The card and the day of a row, marked where the CPU was measured later; empty where there is no row."""
    if not gpu:
        return ""
    older = " (older)" * (gpu["measured"] < cpu["measured"])
    return f"{gpu['device']}, {gpu['measured']}{older}"


def picture(names, cpu, path):
    """Milliseconds over the batch size for the losses of a family, a panel for each."""
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(3 * columns, 2.6 * rows), sharex=True, squeeze=False, layout="constrained"
    )
    for panel, name in zip(panels.flat, names, strict=False):
        for way, label in WAYS.items():
            batches = [batch for batch in [*BATCHES, LARGE] if (name, batch) in cpu]
            points = [(batch, number(cpu[name, batch][f"{way}_ms"])) for batch in batches]
            points = [point for point in points if point[1]]
            panel.loglog(*zip(*points, strict=True), STYLES[way], label=label, markersize=4) if points else None
        panel.set_title(name, fontsize=9)
        panel.set_xticks([*BATCHES, LARGE], ["64", "256", "1k", "4k", "16k"], minor=False)
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    for panel in panels.flat[len(names) :]:
        panel.set_axis_off()
    figure.supxlabel(f"rows of {DIM} dimensions", fontsize=9)
    figure.supylabel("milliseconds", fontsize=9)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=9)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    print(f"wrote {path}")


def main():
    """Write the rows and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of losses.csv and gpu_losses.csv")
    parser.add_argument("--pictures", type=Path, default=DOCS / "images", help="folder of the pictures")
    options = parser.parse_args()
    cpu, gpu = (measured(options.results / f"{name}.csv") for name in ("losses", "gpu_losses"))
    names = [name for name in ours() if (name, BATCHES[-1]) in cpu]
    write_rows(options.results / "speed.csv", [summary(name, cpu, gpu) for name in names])
    for group in sorted({family(name) for name in names}):
        members = [name for name in names if family(name) == group]
        picture(members, cpu, options.pictures / f"speed-{group}.png")


if __name__ == "__main__":
    main()
