"""What a run of `tfdml train` shows: its lines in docs/train.md, its report and the page of its server as pictures.

python -m studies.first_run    # four minutes of two cores; needs Chromium

The photographs are 36 things of `recipes/things.py`, eight of each.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from PIL import Image

from recipes import things
from studies import pages

PAGE, MARK = pages.ROOT / "docs" / "train.md", "<!-- output of studies/first_run -->"
OPTIONS = ["--size=96", "--max-minutes=3"]
COLUMNS = 88  # of a block of code on the site
REASONS = 42  # the column in which the reasons of settings begin
BOTTOM = 1190  # pixels of the report: its verdict, good and bad answers, and the metrics
ITEM = 80  # whose neighbors the page of the server shows


def write_photos(folder, *, views=8, most=12):
    """JPEG files of things of all splits, a folder per thing."""
    for data in things.things(views=views, most=most):
        for row, label in enumerate(data.labels):
            path = folder / data.class_names[label].replace("_left", "").replace("_", " ") / f"{row % views}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(data.images[row]).save(path, quality=90)


def command(*words):
    """A command line of tfdml, of the package in this repository."""
    return [sys.executable, "-m", "tfdml", *words]


def environment():
    """Variables in which a program anywhere finds this repository."""
    return {**os.environ, "PYTHONPATH": str(pages.ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


def printed(folder):
    """What the training prints, in lines of the width of a page."""
    words = ["train", "photos", "--out", "run", *OPTIONS]
    done = subprocess.run(
        command(*words), cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stdout)
    lines = [f"$ tfdml {' '.join(words)}", *done.stdout.splitlines()]
    return "\n".join(wrapped for line in lines for wrapped in in_columns(line))


def in_columns(line):
    """A line, or its parts below each other; the reason of a setting stays in its column."""
    indent = REASONS if line.startswith("  ") else 4
    return textwrap.wrap(line, COLUMNS, subsequent_indent=" " * indent) or [""]


def photograph_of(url, path, *, bottom=900, width=1000):
    """A picture of the beginning of a page in Chromium, of few colors to be small."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000"]
    size = f"--window-size={width},{bottom}"
    subprocess.run([browser, *flags, size, f"--screenshot={path}", url], check=True, capture_output=True)
    picture = Image.open(path).convert("RGB").crop((0, 0, width, bottom))
    picture.quantize(256).save(path, optimize=True)


def serve_and_look(folder, path):
    """A picture of the page of the run's server, with the neighbors of an item."""
    words = command("serve", "run", "--port", "0", "--json")
    with subprocess.Popen(words, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        try:
            page = json.loads(server.stdout.readline())["page"]
            photograph_of(f"{page}#id={ITEM}", path)
        finally:
            server.terminate()


def main():
    """Train, and draw what a user sees."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_photos(folder / "photos")
        text = printed(folder)
        PAGE.write_text(pages.replaced(PAGE.read_text(), MARK, f"```text\n{text}\n```"))
        serve_and_look(folder, pages.IMAGES / "server.png")
        report = (folder / "run" / "report.html").as_uri()
        photograph_of(report, pages.IMAGES / "report.png", bottom=BOTTOM, width=1200)


if __name__ == "__main__":
    main()
