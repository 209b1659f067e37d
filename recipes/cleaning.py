"""Cleaning: copies of photographs found by a threshold from known copies, beside perceptual hashes.

Claim: with the best threshold for a precision of 0.99, the network finds 83% of the crops, pHash 46% and dHash 54%. Of
all copies it finds 89%, pHash 87% and dHash 89%, because it misses more JPEGs and smaller copies. That is one seed with
24 images (`--quick`, 20 seconds of processor time), so a crop more or less is 4 points.

    python recipes/cleaning.py             # five seeds
    python recipes/cleaning.py --quick     # smoke test: one seed, few images

Data: squares of photographs in the wheels of scikit-image, scikit-learn and matplotlib (`pip install
tfdml[photos,pretrained,cleaning]`), about 100 pixels wide, without those of little contrast. They do not overlap. The
similarity is calibrated on squares of some photographs and used once on squares of others, of which each has a crop, a
JPEG, a smaller and a watermarked copy. pHash and dHash have the threshold that is best **on the test images** for a
precision of 0.99, or the best below it where none reaches 0.99.

At last, a folder with five planted leaks and five copies is cleaned, and its page is written.
"""

import argparse
import json
import time
from pathlib import Path

import imagehash
import numpy as np
from PIL import Image

import tfdml
from tfdml.datasets.photo_patches.photographs import PHOTOGRAPHS, read

CALIBRATION = [
    "astronaut",
    "grace_hopper",
    "flower",
    "rocket",
    "ihc",
    "hubble_deep_field",
    "motorcycle_left",
    "chelsea",
]
TEST = ["china", "coffee", "camera", "gravel"]
HASHES = {"pHash": imagehash.phash, "dHash": imagehash.dhash}
PRECISION, SIDE, CONTRAST = 0.99, 96, 15


def main():
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, few images")
    parser.add_argument("--output", type=Path, default=Path("runs/cleaning"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    begin, model, seeds = time.process_time(), tfdml.cleaning.copy_network(SIDE), range(1 if options.quick else 5)
    runs = [run(model, seed, 24 if options.quick else 128) for seed in seeds]
    results = {way: {name: spread([each[way][name] for each in runs]) for name in runs[0][way]} for way in runs[0]}
    found = plant_and_clean(model, options.output)
    record = {"seeds": len(runs), "processor_seconds": round(time.process_time() - begin, 1), "planted": found}
    record |= {"results": results, "runs": runs, **tfdml.environment("pillow", "imagehash")}
    (options.output / "results.json").write_text(json.dumps(record, indent=1))
    for way, row in results.items():
        print(
            f"{way:8}"
            + "".join(f"  {name} {mean:.3f} [{low:.3f}, {high:.3f}]" for name, (mean, low, high) in row.items())
        )
    print(f"planted: {found}; {options.output / 'report' / 'report.html'} shows them")


def spread(values):
    """Mean and 95% interval over seeds; the value itself for one."""
    low, high = tfdml.metrics.seed_interval(values) if len(values) > 1 else (values[0], values[0])
    return float(np.mean(values)), float(low), float(high)


def squares(names, rng, most):
    """Squares of photographs that do not overlap and have some contrast, at random places, with their photograph."""
    cut = []
    for label, name in enumerate(names):
        pixels, side = read(PHOTOGRAPHS[name]), int(rng.integers(88, 112))
        top, left = (int(rng.integers(length % side + 1)) for length in pixels.shape[:2])
        for y in range(top, pixels.shape[0] - side + 1, side):
            for x in range(left, pixels.shape[1] - side + 1, side):
                cut.append((pixels[y : y + side, x : x + side], label))
    cut = [(square, label) for square, label in cut if square.mean(axis=2).std() > CONTRAST]
    return [cut[row] for row in rng.permutation(len(cut))[:most]]


def resized(images):
    """Images as the network takes them."""
    return np.stack([Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR) for image in images])


def run(model, seed, most):
    """Precision and recall of the network and of both hashes on the test photographs."""
    rng = np.random.default_rng(seed)
    known, _ = zip(*squares(CALIBRATION, rng, most), strict=True)
    images, _ = zip(*squares(TEST, rng, most), strict=True)
    copies = {name: [copy(image, rng) for image in images] for name, copy in tfdml.cleaning.COPIES.items()}
    known = tfdml.datasets.LabeledSet(images=resized(known), labels=np.zeros(len(known), int), class_names=("",))
    embeddings = tfdml.models.embed(model, known)
    center = embeddings.mean(axis=0)
    calibration = tfdml.cleaning.calibrate(
        Centered(model, center), known, embeddings - center, precision=PRECISION, sample=most, seed=seed
    )
    network = lambda pixels: unit(tfdml.models.embed(model, resized(pixels)) - center)  # noqa: E731
    scores = {"network": products(network, images, copies)}
    for name, hashed in HASHES.items():
        bits = lambda pixels, hashed=hashed: unit(  # noqa: E731
            np.array([2.0 * hashed(Image.fromarray(image)).hash.ravel() - 1 for image in pixels])
        )
        scores[name] = products(bits, images, copies)
    thresholds = {name: best_threshold(scores[name]) for name in HASHES} | {"network": calibration.similarity}
    best = {"network, best threshold": measured(scores["network"], best_threshold(scores["network"]))}
    return {name: measured(scores[name], thresholds[name]) for name in scores} | best


class Centered:
    """The network with a center that is subtracted."""

    def __init__(self, model, center):
        self.model, self.center = model, center

    def predict_on_batch(self, images):
        """Embeddings of images."""
        return self.model.predict_on_batch(images) - self.center


def unit(vectors):
    """Vectors of length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def products(embed, images, copies):
    """Cosines of the copies of each kind with all images, `(n, n)` each."""
    embedded = embed(images)
    return {name: embed(each) @ embedded.T for name, each in copies.items()}


def measured(scores, threshold):
    """Precision and recall at a threshold, in all and by kind of copy."""
    hits = {name: np.diag(matrix) >= threshold for name, matrix in scores.items()}
    copies, pairs = (
        sum(hit.sum() for hit in hits.values()),
        sum((matrix >= threshold).sum() for matrix in scores.values()),
    )
    recall = {name: float(hit.mean()) for name, hit in hits.items()}
    return {"precision": float(copies / max(pairs, 1)), "recall": float(np.mean(list(recall.values()))), **recall}


def best_threshold(scores):
    """The least threshold of the wanted precision; that of the largest precision if there is none."""
    values = np.unique(np.concatenate([np.diag(matrix) for matrix in scores.values()]))
    precisions = np.array([measured(scores, value)["precision"] for value in values])
    sufficient = precisions >= min(PRECISION, precisions.max())
    return values[np.argmax(sufficient)]


def plant_and_clean(model, output):
    """Kinds of findings in a folder with five planted leaks and five copies, by number."""
    rng = np.random.default_rng(0)
    cut = squares(["astronaut", "chelsea", "coffee"], rng, 60)
    kinds = list(tfdml.cleaning.COPIES.values())
    train, test = cut[:40], cut[40:]
    train = train + [(kinds[i % 4](train[i][0], rng), train[i][1]) for i in range(5)]
    test = test + [(kinds[i % 4](train[10 + i][0], rng), train[10 + i][1]) for i in range(5)]
    sets = {}
    for split, listed in (("train", train), ("test", test)):
        for number, (image, label) in enumerate(listed):
            path = output / "photos" / split / f"photograph-{label}" / f"{number:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
        sets[split] = tfdml.datasets.folder(output / "photos" / split, load=tfdml.datasets.Preprocessing(size=SIDE))
    findings = tfdml.cleaning.clean(model, sets, sample=40)
    tfdml.cleaning.write_report(findings, output / "report")
    names = [finding.kind for finding in findings.listed]
    return {kind: names.count(kind) for kind in sorted(set(names))}


if __name__ == "__main__":
    main()
