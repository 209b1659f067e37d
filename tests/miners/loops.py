"""Float64 loops written from the rules: what the miners have to agree with.

Every function takes labels and embeddings and returns (positive, negative), matrices of the weights that are left.
"""

import math

import numpy as np

from tests.losses.loops import cosines, distances, others_of


def nothing(labels):
    return np.zeros((len(labels), len(labels))), np.zeros((len(labels), len(labels)))


def by_anchor(labels, keep):
    """`keep(anchor, positives, negatives)` returns the rows of each kind that stay."""
    positive, negative = nothing(labels)
    for a in range(len(labels)):
        kept_positives, kept_negatives = keep(a, *others_of(a, labels))
        positive[a, kept_positives] = 1
        negative[a, kept_negatives] = 1
    return positive, negative


def valid_triplets(labels, x, margin=0.1):
    s = cosines(x)

    def keep(a, positives, negatives):
        return (
            [p for p in positives if any(s[a, p] < s[a, n] + margin for n in negatives)],
            [n for n in negatives if any(s[a, n] > s[a, p] - margin for p in positives)],
        )

    return by_anchor(labels, keep)


def triplets(labels, violated):
    """The pairs of the triplets (a, p, n) that are violated."""

    def keep(a, positives, negatives):
        found = [(p, n) for p in positives for n in negatives if violated(a, p, n)]
        return sorted({p for p, _ in found}), sorted({n for _, n in found})

    return by_anchor(labels, keep)


def triplet_violations(labels, x, margin=0.2, distance="squared"):
    d = distances(x, distance)
    return triplets(labels, lambda a, p, n: d[a, n] < d[a, p] + margin)


def angular(labels, x, angle_degrees=20.0):
    def violated(a, p, n):
        middle = (x[a] + x[p]) / 2
        half = np.linalg.norm(x[a] - x[p]) / 2
        return math.degrees(math.atan2(half, np.linalg.norm(x[n] - middle))) > angle_degrees

    return triplets(labels, violated)


def semi_hard(labels, x, min_distance=0.5, margin=None, distance="euclidean"):
    d = distances(x, distance)
    if margin is not None and min_distance == "positive":
        return triplets(labels, lambda a, p, n: d[a, p] < d[a, n] < d[a, p] + margin)
    positive, negative = nothing(labels)
    for a in range(len(labels)):
        positives, negatives = others_of(a, labels)
        positive[a, positives] = 1
        if margin is not None:
            negative[a, [n for n in negatives if min_distance < d[a, n] < min_distance + margin]] = 1
            continue
        for p in positives:
            beyond = [n for n in negatives if d[a, n] > (d[a, p] if min_distance == "positive" else min_distance)]
            if beyond:
                negative[a, min(beyond, key=lambda n, a=a: d[a, n])] += 1
    return positive, negative


def pair_margin(labels, x, positive_margin=0.2, negative_margin=0.8, distance="euclidean"):
    d = distances(x, distance)

    def keep(a, positives, negatives):
        return (
            [p for p in positives if d[a, p] > positive_margin],
            [n for n in negatives if d[a, n] < negative_margin],
        )

    return by_anchor(labels, keep)


def hardest_negatives(labels, x, distance="euclidean"):
    d = distances(x, distance)
    return by_anchor(labels, lambda a, ps, ns: (ps, sorted(ns, key=lambda n: d[a, n])[: len(ps)]))


def hardest_positives(labels, x, distance="euclidean"):
    d = distances(x, distance)
    return by_anchor(labels, lambda a, ps, ns: (sorted(ps, key=lambda p: -d[a, p])[:1], ns))


def easy_positives(labels, x, k=1, distance="euclidean"):
    d = distances(x, distance)
    return by_anchor(labels, lambda a, ps, ns: (sorted(ps, key=lambda p: d[a, p])[:k], ns))


def moderate_positives(labels, x, distance="euclidean"):
    d = distances(x, distance)

    def keep(a, positives, negatives):
        hardest = min((d[a, n] for n in negatives), default=np.inf)
        nearer = sorted((p for p in positives if d[a, p] <= hardest), key=lambda p: d[a, p])
        return nearer[-1:] or sorted(positives, key=lambda p: d[a, p])[:1], negatives

    return by_anchor(labels, keep)


def hardest_negatives_of_batch(labels, x, fraction=None, distance="euclidean"):
    """Both (i, j) and (j, i) count, in the negatives as in the positives."""
    d = distances(x, distance)
    rows = range(len(labels))
    negatives = sorted(((a, n) for a in rows for n in others_of(a, labels)[1]), key=lambda pair: d[pair])
    number = sum(len(others_of(a, labels)[0]) for a in rows)
    if fraction is not None:
        number = max(round(fraction * len(negatives)), 1)
    kept = {pair for pair in negatives if number and d[pair] <= d[negatives[:number][-1]] + 1e-12}
    return by_anchor(labels, lambda a, ps, ns: (ps, [n for n in ns if (a, n) in kept]))


def sphere_density(d, dim):
    """q(d) without its constant."""
    return d ** (dim - 2) * (1 - d * d / 4) ** ((dim - 3) / 2)


def distance_weighted(labels, x, cutoff=0.5, max_distance=1.4, clip=math.inf, constant=1.0):
    """The expected number of draws; `constant` is what makes q a density."""
    d, dim = distances(x, "euclidean"), x.shape[1]
    positive, negative = nothing(labels)
    for a in range(len(labels)):
        positives, negatives = others_of(a, labels)
        positive[a, positives] = 1
        weights = {
            n: min(clip, 1 / (constant * sphere_density(max(d[a, n], cutoff), dim)))
            for n in negatives
            if d[a, n] < max_distance
        }
        for n, weight in weights.items():
            negative[a, n] = len(positives) * weight / sum(weights.values())
    return positive, negative
