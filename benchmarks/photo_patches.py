"""Baselines of the photo patches without training: raw pixels, centered pixels, SIFT.

    python benchmarks/photo_patches.py                     # the validation part
    python benchmarks/photo_patches.py --parts test        # the part that numbers are reported on

SIFT is the descriptor of scikit-image at the middle of the view, sigma 3.5, with the orientation fixed.
"""

import argparse

import numpy as np
from skimage.feature import SIFT

from tfdml import metrics
from tfdml.datasets import photo_patches

SIGMA = 3.5  # pixels
PAIRS = 50_000  # of each kind


def sift(images):
    """SIFT descriptors of the middle of each image, upright: `(n, 128)` float32.

    scikit-image takes no keypoints, so its private steps are called with one keypoint for each image.
    """
    detector = SIFT(upsampling=1)
    return np.stack([_descriptor(detector, image) for image in images]).astype(np.float32)


def _descriptor(detector, image):
    grey = image @ np.array([0.299, 0.587, 0.114]) / 255
    spaces = detector._create_scalespace(detector._preprocess(grey))
    sigmas = detector.scalespace_sigmas[0]
    detector.positions, detector.orientations = np.array([[31.5, 31.5]]), np.zeros(1)
    detector.octaves, detector.scales = np.zeros(1, int), np.array([np.abs(sigmas - SIGMA).argmin()])
    detector.sigmas = np.array([SIGMA])
    detector._compute_descriptor([np.gradient(space) for space in spaces[:1]])
    return detector.descriptors[0]


def fpr95(embeddings, labels, seed=0):
    """False positive rate at the highest threshold with 95% recall, over 100,000 pairs, half of them positive."""
    rng = np.random.default_rng(seed)
    rows = np.argsort(labels, kind="stable").reshape(labels.max() + 1, -1)
    classes = rng.integers(len(rows), size=PAIRS)
    first = rng.integers(rows.shape[1], size=PAIRS)
    second = (first + rng.integers(1, rows.shape[1], size=PAIRS)) % rows.shape[1]
    unit = embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12)
    positive = _similarities(unit, rows[classes, first], rows[classes, second])
    a, b = rng.integers(len(labels), size=(2, 2 * PAIRS))
    differ = np.flatnonzero(labels[a] != labels[b])[:PAIRS]
    negative = _similarities(unit, a[differ], b[differ])
    scores = np.concatenate([positive, negative])
    return metrics.verification(scores, np.arange(len(scores)) < len(positive), far=())["fpr95"]


def _similarities(unit, a, b, chunk=1000):
    """Similarities of pairs of rows, a chunk at a time: vectors of pixels are long."""
    chunks = [slice(start, start + chunk) for start in range(0, len(a), chunk)]
    return np.concatenate([np.einsum("ij,ij->i", unit[a[rows]], unit[b[rows]]) for rows in chunks])


def pixels(images):
    """Pixels as vectors."""
    return images.reshape(len(images), -1).astype(np.float32)


def centered(images):
    """Pixels minus the mean of each channel of each image."""
    return pixels(images - images.mean(axis=(1, 2), keepdims=True))


def main():
    """Prints a table per part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["validation"])
    options = parser.parse_args()
    for part in photo_patches(splits=tuple(options.parts)):
        print(part.protocol)
        for name, embed in (("raw pixels", pixels), ("centered pixels", centered), ("SIFT", sift)):
            found = embed(part.images)
            numbers = metrics.retrieval(found, part.labels, k=(1, 8))
            shown = [100 * numbers[key] for key in ("recall@1", "recall@8", "map@r")]
            print(f"{name:16} " + " ".join(f"{number:5.1f}" for number in [*shown, 100 * fpr95(found, part.labels)]))


if __name__ == "__main__":
    main()
