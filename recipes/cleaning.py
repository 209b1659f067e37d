"""Cleaning: copies of photographs found by embeddings and pixels, beside perceptual hashes.

Claim: verified by their pixels, 96.8% of copies are found (95.8 to 97.8 over five seeds) with a precision of 90.2%
(86.6 to 93.8), and 99.2% of crops; perceptual hashes find 24.1% of crops at most. The precision of 99% that the
thresholds are calibrated for is missed: all wrong pairs have a square of the night sky. 163 seconds of processor
time (AMD EPYC, two cores).

    python recipes/cleaning.py             # five seeds
    python recipes/cleaning.py --quick     # smoke test: one seed, few images

Data: squares of photographs in the wheels of scikit-image, scikit-learn and matplotlib (`pip install
tfdml[photos,pretrained,cleaning]`), 128 to 192 pixels wide, without those of little contrast. They do not overlap.
Every threshold is calibrated for a precision of 0.99 on copies of squares of the calibration photographs, and used once
on squares of the test photographs, of which each has a crop, a JPEG, a smaller and a watermarked copy. A seed draws the
squares and the copies.

At last, a folder with planted leaks, copies, wrong labels and an outlier is cleaned, and its page is written.
"""

import argparse
import collections
import json
import time
from pathlib import Path

import imagehash
import numpy as np
from PIL import Image, ImageDraw

import tfdml

CALIBRATION = ["ihc", "grass", "moon", "page", "text", "motorcycle_left", "china", "coffee", "camera", "gravel"]
TEST = ["chelsea", "coins", "rocket", "astronaut", "grace_hopper", "flower", "hubble_deep_field", "retina"]
HASHES = {"pHash": imagehash.phash, "dHash": imagehash.dhash}
PRECISION, SIDE, SIDES, CONTRAST, CANDIDATES = 0.99, 96, (128, 193), 15, 10
LOAD = tfdml.datasets.Preprocessing(size=SIDE)


def main():
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, few images")
    parser.add_argument("--output", type=Path, default=Path("runs/cleaning"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    begin, model, runs = time.process_time(), tfdml.cleaning.copy_network(SIDE), []
    wrong = collections.Counter()
    for seed in [0] if options.quick else range(1, 6):
        measures, wrong_pairs = run(model, seed, 12 if options.quick else 80, options.output)
        runs.append(measures)
        wrong.update(wrong_pairs)
        print(f"seed {seed}: {time.process_time() - begin:.0f} processor seconds", flush=True)
    results = {way: {name: spread([each[way][name] for each in runs]) for name in runs[0][way]} for way in runs[0]}
    planted = plant_and_clean(model, options.output, 12 if options.quick else 40)
    record = {"seeds": len(runs), "processor_seconds": round(time.process_time() - begin, 1), "planted": planted}
    record |= {
        "wrong": dict(wrong.most_common()),
        "calibration": CALIBRATION,
        "test": TEST,
        "results": results,
        "runs": runs,
    }
    record |= tfdml.environment("pillow", "imagehash")
    (options.output / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    for way, row in results.items():
        print(f"{way:8}", *(f"{name} {mean:.3f} [{low:.3f}, {high:.3f}]" for name, (mean, low, high) in row.items()))
    print(f"planted: {planted}; {options.output / 'report' / 'report.html'} shows them")


def spread(values):
    """Mean and 95% interval over seeds; the value itself for one."""
    low, high = tfdml.metrics.seed_interval(values) if len(values) > 1 else (values[0], values[0])
    return float(np.mean(values)), float(low), float(high)


def squares(names, rng, most):
    """Squares of photographs that do not overlap and have some contrast, at random places, with their photograph."""
    cut = []
    for label, name in enumerate(names):
        pixels = tfdml.datasets.photograph(name)
        side = min(int(rng.integers(*SIDES)), *pixels.shape[:2])
        top, left = (int(rng.integers(length % side + 1)) for length in pixels.shape[:2])
        for y in range(top, pixels.shape[0] - side + 1, side):
            for x in range(left, pixels.shape[1] - side + 1, side):
                cut.append((pixels[y : y + side, x : x + side], label))
    cut = [(square, label) for square, label in cut if square.mean(axis=2).std() > CONTRAST]
    return [cut[row] for row in rng.permutation(len(cut))[:most]]


def run(model, seed, most, output):
    """Precision and recall of each way on the test photographs, and wrong pairs of the verified way by photograph."""
    rng = np.random.default_rng(seed)
    known, test = squares(CALIBRATION, rng, most), squares(TEST, rng, most)
    (known, _), (images, labels) = zip(*known, strict=True), zip(*test, strict=True)
    known_copies, copies = (
        {name: [copy(x, rng) for x in each] for name, copy in tfdml.cleaning.COPIES.items()} for each in (known, images)
    )
    scores = {}
    data = saved(known, output / f"calibration-{seed}")
    embeddings = tfdml.models.embed(model, data)
    center = embeddings.mean(axis=0)
    options = {"precision": PRECISION, "sample": most, "seed": seed}
    calibrations = {
        way: tfdml.cleaning.calibrate(
            Centered(model, center), data, embeddings - center, verify=way == "verified", **options
        )
        for way in ("network", "verified")
    }
    embed = lambda each: unit(tfdml.models.embed(model, resized(each)) - center)  # noqa: E731
    scores["network"] = products(embed, images, copies)
    scores["verified"] = verified(scores["network"], calibrations["verified"].similarity, images, copies)
    thresholds = {"network": calibrations["network"].similarity, "verified": calibrations["verified"].registration}
    for name, hashed in HASHES.items():
        bits = lambda each, h=hashed: unit(np.array([2.0 * h(Image.fromarray(x)).hash.ravel() - 1 for x in each]))  # noqa: E731
        scores[name] = products(bits, images, copies)
        thresholds[name] = best_threshold(products(bits, known, known_copies))
    if seed < 2:
        draw(scores["verified"], thresholds["verified"], images, copies, output / "pairs.png")
    confirmed = [pair for each in scores["verified"].values() for pair in np.argwhere(each >= thresholds["verified"])]
    wrong = collections.Counter(TEST[labels[image]] for copy, image in confirmed if copy != image)
    return {way: measured(scores[way], thresholds[way]) | {"images": len(images)} for way in scores}, wrong


class Centered:
    """The network with a center that is subtracted."""

    def __init__(self, model, center):
        self.model, self.center = model, center

    def predict_on_batch(self, images):
        """Embeddings of images."""
        return self.model.predict_on_batch(images) - self.center


def saved(images, folder):
    """Images as the files of a labeled set."""
    for number, image in enumerate(images):
        path = folder / "photographs" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return tfdml.datasets.folder(folder, load=LOAD)


def resized(images):
    """Images as the network takes them."""
    return np.stack([np.asarray(LOAD(np.ascontiguousarray(image))) for image in images])


def unit(vectors):
    """Vectors of length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def products(embed, images, copies):
    """Cosines of the copies of each kind with all images, `(n, n)` each."""
    embedded = embed(images)
    return {name: embed(each) @ embedded.T for name, each in copies.items()}


def verified(cosines, floor, images, copies):
    """Scores of the registration of each copy with its nearest images above the floor; -1 for other images."""
    thumbnails, scores = [tfdml.cleaning.thumbnail(image) for image in images], {}
    for name, matrix in cosines.items():
        scores[name] = np.full(matrix.shape, -1.0)
        for row, image in enumerate(copies[name]):
            near = np.argsort(-matrix[row])[:CANDIDATES]
            small = tfdml.cleaning.thumbnail(image)
            for column in near[matrix[row, near] >= floor]:
                scores[name][row, column] = tfdml.cleaning.register(small, thumbnails[column]).score
    return scores


def measured(scores, threshold):
    """Precision and recall at a threshold, in all and by kind of copy."""
    recall = {name: float((np.diag(matrix) >= threshold).mean()) for name, matrix in scores.items()}
    copies = sum((np.diag(matrix) >= threshold).sum() for matrix in scores.values())
    pairs = sum((matrix >= threshold).sum() for matrix in scores.values())
    total = {"precision": float(copies / max(pairs, 1)), "recall": float(np.mean(list(recall.values())))}
    return {"threshold": float(threshold), **total, **recall}


def best_threshold(scores):
    """The least threshold of the wanted precision; that of the largest precision if there is none."""
    values = np.unique(np.concatenate([np.diag(matrix) for matrix in scores.values()]))
    precisions = np.array([measured(scores, value)["precision"] for value in values])
    return values[np.argmax(precisions >= min(PRECISION, precisions.max()))]


def draw(scores, threshold, images, copies, path):
    """The confirmed pairs of the least scores, one of each kind and more, above the refused pairs of the highest."""
    listed = [(matrix[i, j], name, i, j) for name, matrix in scores.items() for i, j in np.argwhere(matrix > -1)]
    listed = sorted(listed, key=lambda each: -each[0])
    confirmed = [
        next(x for x in reversed(listed) if x[1] == name and x[0] >= threshold) for name in tfdml.cleaning.COPIES
    ]
    refused = {frozenset(x[2:]): x for x in reversed(listed) if x[0] < threshold}
    refused = sorted(refused.values(), key=lambda each: -each[0])[:4]
    canvas = Image.new("RGB", (4 * 232 + 8, 2 * 160), "white")
    pen = ImageDraw.Draw(canvas)
    for top, head, row in ((0, "confirmed", confirmed), (160, "refused", refused)):
        for number, (score, name, i, j) in enumerate(row):
            left = 8 + 232 * number
            text = f"{head}, {score:.2f}: {name} of " + ("this image" if i == j else "another image")
            pen.text((left, top + 8), text, fill="black")
            for offset, image in ((0, copies[name][i]), (112, images[j])):
                small = Image.fromarray(image)
                small.thumbnail((108, 128))
                canvas.paste(small.resize((108, round(108 * small.height / small.width))), (left + offset, top + 30))
    canvas.quantize(256).save(path)


def plant_and_clean(model, output, most):
    """Number of planted leaks, copies, wrong labels and outliers of a folder, and of those that are listed."""
    rng, kinds = np.random.default_rng(0), list(tfdml.cleaning.COPIES.values())
    cut = squares(["astronaut", "hubble_deep_field", "retina"], rng, 3 * most // 2)
    train, test = cut[:most], cut[most:]
    copied = [(kinds[i % 4](train[i][0], rng), train[i][1]) for i in range(4)]
    leaked = [(kinds[i % 4](train[4 + i][0], rng), train[4 + i][1]) for i in range(4)]
    wrong = [(image, (label + 1) % 3) for image, label in train[8:10]]
    outlier = [(rng.integers(0, 2, (128, 128, 1)).repeat(3, axis=2).astype(np.uint8) * 255, 0)]
    train = {"normal": train[:8] + train[10:], "wrong": wrong, "outlier": outlier, "copy": copied}
    sets = {}
    for split, groups in (("train", train), ("test", {"normal": test, "leak": leaked})):
        for kind, group in groups.items():
            for number, (image, label) in enumerate(group):
                path = output / "photos" / split / f"photograph-{label}" / f"{kind}-{number:02}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(path)
        sets[split] = tfdml.datasets.folder(output / "photos" / split, load=LOAD)
    findings = tfdml.cleaning.clean(model, sets, sample=most)
    tfdml.cleaning.write_report(findings, output / "report")
    planted = {"leak": "leak", "duplicate": "copy", "label": "wrong", "outlier": "outlier"}
    listed = {kind: [x for x in findings.listed if x.kind == kind] for kind in planted}
    hits = {kind: sum(f"{name}-" in x.name + x.other for x in listed[kind]) for kind, name in planted.items()}
    numbers = {"leak": 4, "duplicate": 4, "label": 2, "outlier": 1}
    return {kind: {"planted": numbers[kind], "listed": len(listed[kind]), "right": hits[kind]} for kind in planted}


if __name__ == "__main__":
    main()
