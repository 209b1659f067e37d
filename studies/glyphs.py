"""The table of the README: five seeds of recipes/glyphs.py, mean and standard deviation.

    python benchmarks/glyphs.py            # trains the seeds that have no result yet, then writes the table

Each seed's run is kept under `runs/glyphs-<seed>`, so that an interrupted benchmark goes on; delete `runs` to start
anew. The pictures of seed 0 become those of the README.
"""

import argparse
import csv
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from _report import RESULTS, write_csv

ROOT = Path(__file__).parent.parent
KEYS = ["recall@1", "recall@2", "recall@4", "recall@8", "map@r"]


def results_of(seed, folder):
    """The results of one seed; trains it if need be."""
    output = folder / f"glyphs-{seed}"
    if not (output / "results.json").exists():
        recipe = ROOT / "recipes" / "glyphs.py"
        subprocess.run([sys.executable, recipe, "--resume", "--seed", str(seed), "--output", output], check=True)
    return json.loads((output / "results.json").read_text())


def table(runs):
    """A row for each method and seed, then mean and standard deviation over seeds."""
    rows = []
    about = {key: runs[0][key] for key in ("protocol", "versions", "hardware")}
    for method in runs[0]["results"]:
        values = {key: [run["results"][method][key] for run in runs] for key in KEYS}
        for place, run in enumerate(runs):
            numbers = {key: values[key][place] for key in KEYS}
            rows.append({"method": method, "seed": run["seed"], **numbers, "seconds": run["seconds"], **about})
        seconds = statistics.mean(run["seconds"] for run in runs)
        for name, summary in (("mean", statistics.mean), ("standard deviation", statistics.stdev)):
            numbers = {key: summary(values[key]) for key in KEYS}
            rows.append({"method": method, "seed": name, **numbers, "seconds": round(seconds, 1), **about})
    return rows


def markdown(rows):
    """The summary rows as the table that stands in the README."""
    lines = ["| | " + " | ".join(["Recall@1", "@2", "@4", "@8", "MAP@R"]) + " |", "| --- |" + " ---: |" * len(KEYS)]
    spread = {row["method"]: row for row in rows if row["seed"] == "standard deviation"}
    for row in (row for row in rows if row["seed"] == "mean"):
        cells = []
        for key in KEYS:
            deviation = 100 * spread[row["method"]][key]
            cells.append(f"{100 * row[key]:.1f}" + (f" ± {deviation:.1f}" if deviation else ""))
        lines.append(f"| {row['method']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_into_readme(text):
    """Put the table between its two marks."""
    readme = ROOT / "README.md"
    marks = "<!-- table of benchmarks/glyphs.py -->", "<!-- end of table -->"
    pattern = re.escape(marks[0]) + ".*?" + re.escape(marks[1])
    whole = re.sub(pattern, f"{marks[0]}\n{text}\n{marks[1]}", readme.read_text(), flags=re.DOTALL)
    readme.write_text(whole)


def read(path):
    """The rows of an earlier table, numbers as floats."""
    rows = list(csv.DictReader(path.read_text().splitlines()))
    return [{**row, **{key: float(row[key]) for key in KEYS}} for row in rows]


def main():
    """Train what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    parser.add_argument("--only-table", action="store_true", help="write the README from results/glyphs.csv")
    options = parser.parse_args()
    if not options.only_table:
        runs = [results_of(seed, options.runs) for seed in range(options.seeds)]
        write_csv(RESULTS / "glyphs.csv", table(runs))
        (ROOT / "docs" / "images").mkdir(parents=True, exist_ok=True)
        for picture in ("before", "after", "training"):
            shutil.copy(options.runs / "glyphs-0" / f"{picture}.png", ROOT / "docs" / "images" / f"{picture}.png")
    text = markdown(read(RESULTS / "glyphs.csv"))
    write_into_readme(text)
    print(text)


if __name__ == "__main__":
    main()
