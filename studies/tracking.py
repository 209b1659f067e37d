"""The tables of recipes/tracking/README.md, from the results of its recipe.

python -m recipes.tracking --choose --output runs/tracking_choose
python -m recipes.tracking --seeds 5 --output runs/tracking
python -m studies.tracking                 # keeps the results that are there, and the picture
"""

import json
import re
import shutil

import numpy as np
from PIL import Image, ImageSequence

from studies import pages, runner

FOLDER = pages.RESULTS / "tracking"
PAGE = pages.ROOT / "recipes" / "tracking" / "README.md"
MARKS = {name: f"<!-- {name} of studies/tracking -->" for name in ("validation", "test")}
COLUMNS = {
    "success_area": "success area",
    "precision@20": "precision at 20",
    "ao": "AO",
    "sr@0.5": "SR 0.5",
    "sr@0.75": "SR 0.75",
}


def main():
    """Keep the results."""
    runs = pages.ROOT / "runs"
    keep(runs / "tracking_choose" / "results.json", FOLDER / "validation.json")
    keep(runs / "tracking" / "results.json", FOLDER / "test.json")
    reduced(runs / "tracking" / "tracks.gif", pages.IMAGES / "tracking.gif")


def keep(source, target):
    """Copy a result, if it is there."""
    if source.exists():
        target.parent.mkdir(exist_ok=True)
        shutil.copy(source, target)


def reduced(source, target, colors=32):
    """Every second frame of an animation in few colors, if it is there: a third of the bytes."""
    if not source.exists():
        return
    with Image.open(source) as image:
        frames = [frame.convert("RGB").quantize(colors) for frame in list(ImageSequence.all_frames(image))[::2]]
        duration = 2 * image.info["duration"]
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=duration, loop=0, optimize=True)


def filled(text):
    """The page with its tables."""
    for name, mark in MARKS.items():
        file = FOLDER / f"{name}.json"
        table = section(json.loads(file.read_text())) if file.exists() else "Not measured."
        text = pages.replaced(text, mark, table)
    return text


def section(results):
    """A table of runs, and the difference below it."""
    speeds = results.get("frames_per_second", {})
    heads = [*COLUMNS.values(), *(["frames per second"] if speeds else [])]
    body = []
    for name, runs in results["runs"].items():
        cells = [cell(100 * np.array([run[key] for run in runs])) for key in COLUMNS]
        cells += [f"{speeds[name]:.0f}"] if speeds else []
        body.append([readable(name), *cells])
    difference = [difference_text(results["difference"])] if "difference" in results else []
    return "\n\n".join(
        [runner.markdown(["", *heads], body, texts=(0,)), *difference, f"{results['hardware']}; {results['versions']}."]
    )


def readable(name):
    """A name of a run without the signs of a dict."""
    return re.sub("[{}']", "", name).replace("_", " ")


def difference_text(difference):
    """Success area of the network minus that of the template."""
    (low, high), seeds = difference["interval_of_clips"], difference["interval_of_seeds"]
    return (
        f"Success area of the network minus that of the template, in points, paired over clips: "
        f"{100 * difference['mean']:.1f} (95% interval over clips {100 * low:.1f} to {100 * high:.1f}; over seeds "
        f"{100 * seeds[0]:.1f} to {100 * seeds[1]:.1f})."
    )


def cell(values):
    """Mean and standard deviation over seeds, or the value."""
    return f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


if __name__ == "__main__":
    main()
