"""Float64 loops written from the equations: what the losses have to agree with."""

import numpy as np


def distance_between(a, b, distance):
    if distance == "cosine":
        return 1 - (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))
    square = ((a - b) ** 2).sum()
    return square if distance == "squared" else np.sqrt(square)


def others_of(anchor, labels):
    """(positives, negatives) of a row: every other row, by class."""
    rows = [row for row in range(len(labels)) if row != anchor]
    return [r for r in rows if labels[r] == labels[anchor]], [r for r in rows if labels[r] != labels[anchor]]


def contrastive(labels, x, positive_margin=0.0, negative_margin=1.0, distance="euclidean"):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        total = sum(max(0, distance_between(x[a], x[p], distance) - positive_margin) ** 2 for p in positives)
        total += sum(max(0, negative_margin - distance_between(x[a], x[n], distance)) ** 2 for n in negatives)
        values.append(total / max(len(positives) + len(negatives), 1))
    return np.array(values)


def contrastive_of_consecutive(labels, x, negative_margin=1.0):
    values = []
    for k in range(0, len(x), 2):
        d = distance_between(x[k], x[k + 1], "euclidean")
        values.append(d**2 if labels[k] == labels[k + 1] else max(0, negative_margin - d) ** 2)
    return np.array(values)


def multi_similarity(labels, x, alpha=2.0, beta=50.0, threshold=0.5, keep=lambda labels, s, a: others_of(a, labels)):
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    s = x @ x.T
    values = []
    for a in range(len(x)):
        positives, negatives = keep(labels, s, a)
        pull = sum(np.exp(-alpha * (s[a, p] - threshold)) for p in positives)
        push = sum(np.exp(beta * (s[a, n] - threshold)) for n in negatives)
        values.append(np.log1p(pull) / alpha + np.log1p(push) / beta)
    return np.array(values)


def kept_by_valid_triplets(labels, s, a, margin=0.1):
    positives, negatives = others_of(a, labels)
    return (
        [p for p in positives if any(s[a, p] < s[a, n] + margin for n in negatives)],
        [n for n in negatives if any(s[a, n] > s[a, p] - margin for p in positives)],
    )


def mined_multi_similarity(labels, x):
    return multi_similarity(labels, x, keep=kept_by_valid_triplets)


def batch_hard_triplet(labels, x, margin=0.2, distance="euclidean"):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        if not positives or not negatives:
            values.append(0.0)
            continue
        farthest = max(distance_between(x[a], x[p], distance) for p in positives)
        nearest = min(distance_between(x[a], x[n], distance) for n in negatives)
        values.append(max(0.0, margin + farthest - nearest))
    return np.array(values)
