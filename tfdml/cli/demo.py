"""`tfdml demo`: a folder of photographs, a search in it, and its page, by commands that it prints."""

import argparse
import shlex
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

from tfdml import cli
from tfdml.cli.arguments import refuse_unless
from tfdml.cli.paths import names_of_zoo
from tfdml.cli.printing import EXIT_OK, say
from tfdml.datasets import photograph

MODEL = "things"
QUERY = "motorcycle"
VIEWS = 12  # of a thing in the folder
SIDE = 256  # pixels of a view
# Each thing is in a photograph of the public domain, in a box of left, upper, right and lower border.
THINGS = {
    "astronaut": ("astronaut", (60, 20, 370, 512)),
    "captain": ("grace_hopper", (120, 10, 440, 440)),
    "cartons": ("motorcycle_left", (500, 20, 735, 270)),
    "cat": ("chelsea", (40, 0, 390, 300)),
    "coffee": ("coffee", (70, 10, 480, 395)),
    "coins": ("coins", (10, 10, 375, 300)),
    "galaxies": ("hubble_deep_field", (100, 100, 900, 800)),
    "helmet": ("astronaut", (280, 340, 512, 512)),
    "motorcycle": ("motorcycle_left", (110, 80, 690, 450)),
    "photographer": ("camera", (0, 50, 330, 512)),
    "retina": ("retina", (20, 20, 690, 690)),
    "rocket": ("rocket", (240, 100, 420, 427)),
    "shuttle": ("astronaut", (345, 0, 470, 250)),
}


def run_demo(options: argparse.Namespace) -> int:
    """Print each command and its answer: embed the photographs, search for one, and serve the page."""
    expected = "the models of tfdml: pip install tfdml-zoo"
    refuse_unless(MODEL in names_of_zoo(), "tfdml demo", f"no model {MODEL!r}", expected)
    folder = Path(options.folder).expanduser()
    photos, index, query = folder / "photos", folder / "photos.parquet", folder / "query.jpg"
    commands = [["search", MODEL, index, query, "-k", 3]]
    if not index.is_file():
        _write(photos, query)
        say(f"{photos} has {len(THINGS) * VIEWS} photographs of {len(THINGS)} things, {query} is one more")
        commands.insert(0, ["embed", photos, index, "--model", MODEL])
    if options.serve:
        address = ["--host", options.host, "--port", options.port]
        commands.append(["serve", MODEL, "--index", index, "--name", MODEL, *address])
    codes = (_run(command, options.json) for command in commands)
    return next((code for code in codes if code != EXIT_OK), EXIT_OK)


def _run(command, as_json):
    """Print a command, and run it in this process."""
    words = [str(word) for word in command]
    say(f"$ {shlex.join(['tfdml', *words])}")
    return cli.main(words + ["--json"] * as_json)


def _write(photos, query):
    """Write views of each thing, and one more as the query."""
    photographs = {name: Image.fromarray(photograph(name)) for name, _ in THINGS.values()}
    random = np.random.default_rng(0)
    for thing, (name, box) in THINGS.items():
        (photos / thing).mkdir(parents=True)
        for number in range(VIEWS):
            _view(photographs[name], box, random).save(photos / thing / f"{number}.jpg", quality=90)
    name, box = THINGS[QUERY]
    _view(photographs[name], box, random).save(query, quality=90)


def _view(picture, box, random):
    """A square with most of a box: turned, shifted, scaled and lit at random."""
    (x, y), sides = np.add(box[:2], box[2:]) / 2, np.subtract(box[2:], box[:2])
    x, y = (x, y) + random.uniform(-0.12, 0.12, 2) * sides
    half = max(sides) * random.uniform(0.35, 0.55)
    turned = picture.rotate(random.uniform(-12, 12), Image.Resampling.BICUBIC, center=(x, y))
    square = turned.crop((x - half, y - half, x + half, y + half)).resize((SIDE, SIDE))
    return ImageEnhance.Brightness(square).enhance(random.uniform(0.6, 1.4))
