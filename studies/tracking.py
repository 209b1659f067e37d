"""The table of the page of tracking, from the results of its recipe.

python recipes/tracking.py --choose --output runs/tracking_choose
python recipes/tracking.py --output runs/tracking
python -m studies.tracking                 # keeps both results, and writes the table and the picture of the page
python -m studies.tracking --only-table    # the table, from the kept results
"""

import argparse
import json
import shutil

import numpy as np

from studies import pages

FOLDER = pages.RESULTS / "tracking"
PAGE = pages.ROOT / "docs" / "tracking.md"
MARK = "<!-- table of studies/tracking -->"
COLUMNS = {
    "success_area": "success area",
    "precision@20": "precision at 20",
    "ao": "AO",
    "sr@0.5": "SR 0.5",
    "sr@0.75": "SR 0.75",
}


def main():
    """Keep the results, unless only the table is asked for, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only-table", action="store_true")
    if not parser.parse_args().only_table:
        FOLDER.mkdir(exist_ok=True)
        shutil.copy(pages.ROOT / "runs" / "tracking" / "results.json", FOLDER / "test.json")
        shutil.copy(pages.ROOT / "runs" / "tracking_choose" / "results.json", FOLDER / "validation.json")
        shutil.copy(pages.ROOT / "runs" / "tracking" / "tracks.gif", pages.IMAGES / "tracking.gif")
    PAGE.write_text(filled())


def filled():
    """The page with its table."""
    return pages.replaced(PAGE.read_text(), MARK, section(json.loads((FOLDER / "test.json").read_text())))


def section(results):
    """The table of the test clips, and the difference below it."""
    lines = [
        "| | " + " | ".join(COLUMNS.values()) + " | frames per second |",
        "| --- |" + " ---: |" * (len(COLUMNS) + 1),
    ]
    for name, runs in results["runs"].items():
        cells = [cell(100 * np.array([run[key] for run in runs])) for key in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {results['frames_per_second'][name]:.0f} |")
    difference = results["difference"]
    (low, high), seeds = difference["interval_of_clips"], difference["interval_of_seeds"]
    text = (
        f"Success area of the network minus that of the template, in points, paired over clips: "
        f"{100 * difference['mean']:.1f} (95% interval over clips {100 * low:.1f} to {100 * high:.1f}; over seeds "
        f"{100 * seeds[0]:.1f} to {100 * seeds[1]:.1f})."
    )
    return "\n".join(lines) + f"\n\n{text}\n\n{results['hardware']}; {results['versions']}."


def cell(values):
    """Mean and standard deviation over seeds, or the value."""
    return f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


if __name__ == "__main__":
    main()
