"""The tables of docs/cleaning.md, and copies of made pictures that are unlike the photographs of a calibration.

    python recipes/cleaning.py --output results/cleaning    # only results.json is kept
    python -m studies.cleaning                              # the made pictures: two minutes of processor time

Stars, lines of strokes and textures of noise are drawn at random. The threshold comes from squares of the calibration
photographs of recipes/cleaning.py; the test photographs are not read. On such pictures, and on these photographs, the
registration of `tfdml.cleaning` was chosen.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

import tfdml
from recipes import cleaning as recipe
from studies import pages, runner

RESULTS, PAGE = pages.RESULTS / "cleaning" / "results.json", pages.ROOT / "docs" / "cleaning.md"
MADE, MADE_MARK = pages.RESULTS / "cleaning" / "made-pictures.json", "<!-- made of studies/cleaning -->"
COPIES_MARK = "<!-- copies of studies/cleaning -->"
WAYS = {"verified": "network, verified by pixels", "network": "network alone", "pHash": "pHash", "dHash": "dHash"}
COLUMNS = ("precision", "recall", "crop", "jpeg", "resize", "watermark")
COUNT, SEEDS = 40, (11, 12, 13)


def stars(rng, side):
    """Dots and blobs on black, a few of them bright, and noise."""
    image = np.full((side, side), rng.uniform(0, 15))
    for _ in range(round(np.exp(rng.uniform(np.log(8), np.log(150))))):
        size = rng.uniform(0.8, 2.5) if rng.random() < 0.7 else rng.uniform(2, 6)
        offsets = np.stack(np.indices((side, side)), axis=2) - rng.uniform(0, side, 2)
        angle, shape = rng.uniform(0, np.pi), rng.uniform(0.4, 1)
        along = offsets @ [np.cos(angle), np.sin(angle)]
        across = offsets @ [-np.sin(angle), np.cos(angle)] / shape
        image += min(15 + 20 * rng.pareto(1), 255) * np.exp(-0.5 * (along**2 + across**2) / size**2)
    return as_picture(image + rng.normal(0, rng.uniform(1, 6), image.shape))


def strokes(rng, side):
    """Lines of upright and level strokes, dark on light or light on dark."""
    image, height = np.full((side, side), rng.uniform(200, 255)), int(rng.integers(5, 12))
    for top in range(int(rng.integers(height)), side - height, int(height * rng.uniform(1.5, 4))):
        left = int(rng.integers(10))
        while left < side - 3:
            start, width = top + int(rng.integers(height // 2)), int(rng.integers(1, 3))
            is_upright = rng.random() < 0.6
            stroke = (height // 2 + 1, width) if is_upright else (width, height // 2)
            image[start : start + stroke[0], left : left + stroke[1]] = rng.uniform(0, 60)
            left += int(rng.integers(3, height)) if rng.random() < 0.9 else 3 * height
    return as_picture(255 - image if rng.random() < 0.4 else image)


def textures(rng, side):
    """A sum of noise on one to three scales."""
    frequencies = np.fft.fftfreq(side)
    squares, image = frequencies[:, None] ** 2 + frequencies**2, np.zeros((side, side))
    for _ in range(int(rng.integers(1, 4))):
        scale = np.exp(rng.uniform(np.log(0.8), np.log(12)))
        spectrum = np.fft.fft2(rng.normal(size=image.shape)) * np.exp(-2 * (np.pi * scale) ** 2 * squares)
        noise = np.fft.ifft2(spectrum).real
        image += rng.uniform(0.3, 1) * noise / noise.std()
    return as_picture(rng.uniform(60, 190) + rng.uniform(12, 50) * image / image.std())


def as_picture(image):
    """Gray levels as pixels."""
    return np.repeat(np.uint8(np.clip(np.rint(image), 0, 255))[..., None], 3, axis=2)


KINDS = {"stars": stars, "strokes": strokes, "textures": textures}


def row(network, seed, folder):
    """Threshold, and precision and recall on each kind of pictures."""
    rng, options = np.random.default_rng([25, seed]), {"sample": COUNT, "seed": seed}
    sets = {"photographs": recipe.squares(recipe.CALIBRATION, rng, COUNT)}
    sets |= {
        kind: [(draw(rng, int(rng.integers(128, 193))), kind) for _ in range(COUNT)] for kind, draw in KINDS.items()
    }
    for kind, images in sets.items():
        recipe.save({"picture": images}, folder / kind)
        sets[kind] = tfdml.datasets.folder(folder / kind, load=recipe.LOAD)
    vectors = {kind: recipe.embedded(network, data) for kind, data in sets.items()}
    center = vectors["photographs"].mean(axis=0)
    options = {**options, "center": center}
    known = tfdml.cleaning.score_copies(network, sets["photographs"], vectors["photographs"] - center, **options)
    calibration = known.calibrated(0.99)
    measures = {"seed": seed, "threshold": calibration.registration}
    for kind, data in sets.items():
        scores = tfdml.cleaning.score_copies(
            network, data, vectors[kind] - center, floor=calibration.similarity, **options
        )
        measures[kind] = recipe.measured(scores, calibration.registration)
    return measures


def copies_table(record):
    """Precision and recall by way, mean over seeds with its 95% interval, as a Markdown table."""
    body = [[name, *(cell(*record["results"][way][column]) for column in COLUMNS)] for way, name in WAYS.items()]
    return runner.markdown(["", *COLUMNS], body, texts=(0,))


def cell(mean, low, high):
    """A mean and half of the width of its interval."""
    return f"{mean:.3f} ± {(high - low) / 2:.3f}"


def made_table(record):
    """Mean precision and recall by kind of pictures, as a Markdown table."""
    kinds, body = [kind for kind in record["runs"][0] if kind not in ("seed", "threshold")], []
    for kind in kinds:
        values = [[run[kind][column] for column in COLUMNS] for run in record["runs"]]
        body.append([kind, *(f"{mean:.3f}" for mean in np.mean(values, axis=0))])
    return runner.markdown(["", *COLUMNS], body, texts=(0,))


def filled(text):
    """The text of the page with its tables."""
    record = json.loads(RESULTS.read_text())
    text = pages.replaced(text, COPIES_MARK, copies_table(record))
    return pages.replaced(text, MADE_MARK, made_table(json.loads(MADE.read_text())))


def main():
    """Measure, and keep the rows."""
    begin, network = time.process_time(), tfdml.cleaning.copy_network(recipe.TILE)
    with tempfile.TemporaryDirectory() as folder:
        runs = [row(network, seed, Path(folder)) for seed in SEEDS]
    record = {"processor_seconds": round(time.process_time() - begin, 1), "pictures": COUNT, "runs": runs}
    MADE.write_text(json.dumps(record | tfdml.environment("pillow"), indent=1) + "\n")


if __name__ == "__main__":
    main()
