"""The table of docs/glyphs.md: several seeds of recipes/glyphs.py, mean and standard deviation.

    python -m studies.glyphs                # 20 minutes on two cores; resumes where it was stopped
    python -m studies.glyphs --choose       # the trials of studies/glyphs_choice.py, half an hour on one core

Runs are kept under `runs/glyphs-SEED`; delete them to train again. Seed 0 draws the pictures of that page.
"""

import json
import shutil
import statistics
import subprocess
import sys

from studies import glyphs_choice, pages, runner

ROWS = pages.RESULTS / "glyphs.csv"
PAGE, MARK = pages.ROOT / "docs" / "glyphs.md", "<!-- table of studies/glyphs -->"
KEYS = ["recall@1", "recall@2", "recall@4", "recall@8", "map@r"]
SUMMARIES = {"mean": statistics.mean, "standard deviation": statistics.stdev}


def results_of(seed, folder):
    """The results of one seed, which is trained unless they exist."""
    output = folder / f"glyphs-{seed}"
    if not (output / "results.json").exists():
        folders = ["--output", str(output), "--models", str(output / "models")]
        command = [sys.executable, "-m", "recipes.glyphs", "--resume", "--seed", str(seed), *folders]
        subprocess.run(command, check=True, cwd=pages.ROOT)
    return json.loads((output / "results.json").read_text())


def rows_of(runs):
    """For each method one row per seed, then the mean and the standard deviation over seeds."""
    return [
        {"method": method, "seed": seed, **numbers, "seconds": round(seconds, 1), **about}
        for method in runs[0]["results"]
        for seed, numbers, seconds, about in _lines([run["results"][method] for run in runs], runs)
    ]


def _lines(results, runs):
    """(seed or name of the summary, numbers, seconds, protocol and machine) of one method."""
    seconds = [run["seconds"] for run in runs]
    for run, numbers in zip(runs, results, strict=True):
        yield run["seed"], {key: numbers[key] for key in KEYS}, run["seconds"], _about([run])
    for name, summary in SUMMARIES.items():
        numbers = {key: summary(numbers[key] for numbers in results) for key in KEYS}
        yield name, numbers, statistics.mean(seconds), _about(runs)


def _about(runs):
    """What the runs were measured on; different values are joined."""
    return {key: "; ".join(dict.fromkeys(run[key] for run in runs)) for key in ("protocol", "versions", "hardware")}


def table(rows):
    """The summary rows as a Markdown table."""
    body = []
    for row in runner.where(rows, seed="mean"):
        (spread,) = runner.where(rows, seed="standard deviation", method=row["method"])
        body.append([row["method"], *(_cell(100 * row[key], 100 * spread[key]) for key in KEYS)])
    return runner.markdown(["", "Recall@1", "@2", "@4", "@8", "MAP@R"], body, texts=(0,))


def _cell(mean, deviation):
    return f"{mean:.1f} ± {deviation:.1f}" if deviation else f"{mean:.1f}"


def filled(text):
    """The text of the page with its table."""
    return pages.replaced(text, MARK, table(runner.read_rows(ROWS)))


def main():
    """Train what is missing and write the rows and the pictures."""
    options = runner.options_of(__doc__, seeds=5, runs=pages.ROOT / "runs", choose=False)
    if options.choose:
        trials = glyphs_choice.choose(options.runs / "glyphs-choice")
        runner.write_rows(glyphs_choice.ROWS, glyphs_choice.rows_of(trials))
    else:
        runner.write_rows(ROWS, rows_of([results_of(seed, options.runs.absolute()) for seed in range(options.seeds)]))
        for picture in ("before", "after"):
            shutil.copy(options.runs / "glyphs-0" / f"{picture}.png", pages.IMAGES)


if __name__ == "__main__":
    main()
