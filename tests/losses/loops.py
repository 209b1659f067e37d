"""Float64 loops written from the equations: what the losses have to agree with.

Every function takes labels and embeddings and returns one value per anchor. Losses that divide by the N terms of a
batch return the sum of an anchor's terms times batch / N; losses of the batch as a whole return its value for every
anchor. `fixed` stands for the embeddings that weights without a gradient are computed from: `x` itself by default.
"""

import functools

import numpy as np
from sklearn.metrics import normalized_mutual_info_score


def cosine_between(a, b):
    return (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))


def distance_between(a, b, distance):
    if distance == "cosine":
        return 1 - (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))
    if distance == "snr":
        return np.var(b - a) / np.var(a) if len(a) > 1 else 0.0
    square = ((a - b) ** 2).sum()
    return square if distance == "squared" else np.sqrt(square)


def others_of(anchor, labels):
    """(positives, negatives) of a row: every other row, by class."""
    rows = [row for row in range(len(labels)) if row != anchor]
    return [r for r in rows if labels[r] == labels[anchor]], [r for r in rows if labels[r] != labels[anchor]]


def distances(x, distance):
    return np.array([[distance_between(a, b, distance) for b in x] for a in x])


def cosines(x):
    return np.array([[cosine_between(a, b) for b in x] for a in x])


def unit(x):
    return np.array([row / np.linalg.norm(row) for row in x])


def mean(values):
    return sum(values) / len(values) if len(values) else 0.0


def log_sum_exp(values):
    return np.logaddexp.reduce(values)  # -inf of nothing


def over_batch(sums, number):
    return np.array([total * len(sums) / number if number else 0.0 for total in sums])


def mean_over_pairs(labels, x, cost, **settings):
    """Each anchor's mean of `cost(its label, the other's label, its embedding, the other's)` over all other rows."""
    rows = range(len(x))
    return np.array(
        [mean([cost(labels[a], labels[r], x[a], x[r], **settings) for r in rows if r != a]) for a in rows], dtype=float
    )


def consecutive(labels, x, cost, **settings):
    """The cost of rows 2k and 2k + 1, one value a pair; `cost` is as in `mean_over_pairs`."""
    return np.array(
        [cost(labels[k], labels[k + 1], x[k], x[k + 1], **settings) for k in range(0, len(x), 2)], dtype=float
    )


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


def weighted_contrastive_cost(
    label_a,
    label_b,
    a,
    b,
    positive_cost=lambda d: d**2,
    negative_cost=lambda d: max(0, 1 - d) ** 2,
    eta=1.0,
    distance="euclidean",
):
    d = distance_between(a, b, distance)
    if label_a == label_b:
        return positive_cost(d)
    return (eta(label_a, label_b) if callable(eta) else eta) * negative_cost(d)


def weighted_contrastive(labels, x, **settings):
    """The costs take one distance; `eta` is a number, or a function of the labels of anchor and negative."""
    return mean_over_pairs(labels, x, weighted_contrastive_cost, **settings)


def balanced_contrastive_cost(
    label_a, label_b, a, b, class_counts, negatives_per_positive=256.0, margin=1.0, distance="euclidean"
):
    """`class_counts` is a dict, or an array indexed by class in which a class of no examples does not exist."""
    d = distance_between(a, b, distance)
    if label_a == label_b:
        return d**2
    counts = class_counts.values() if isinstance(class_counts, dict) else class_counts
    classes = sum(count > 0 for count in counts)
    eta = negatives_per_positive / (classes - 1) * (class_counts[label_a] - 1) / class_counts[label_b]
    return eta * max(0, margin - d) ** 2


def balanced_contrastive(labels, x, **settings):
    return mean_over_pairs(labels, x, balanced_contrastive_cost, **settings)


def cosine_contrastive_cost(label_a, label_b, a, b, threshold=0.5):
    s = cosine_between(a, b)
    return -s if label_a == label_b else max(0, s - threshold)


def cosine_contrastive(labels, x, **settings):
    return mean_over_pairs(labels, x, cosine_contrastive_cost, **settings)


def cosine_regression_cost(label_a, label_b, a, b):
    return (float(label_a == label_b) - cosine_between(a, b)) ** 2 / 2


def cosine_regression(labels, x):
    return mean_over_pairs(labels, x, cosine_regression_cost)


def distance_logistic_cost(label_a, label_b, a, b, margin=1.0, distance="euclidean"):
    belongs = (1 + np.exp(-margin)) / (1 + np.exp(distance_between(a, b, distance) - margin))
    return -np.log(belongs) if label_a == label_b else -np.log(1 - belongs)


def distance_logistic(labels, x, **settings):
    return mean_over_pairs(labels, x, distance_logistic_cost, **settings)


def binomial_deviance_cost(label_a, label_b, a, b, alpha=2.0, beta=50.0, threshold=0.5):
    s = cosine_between(a, b)
    return np.log1p(np.exp(alpha * (threshold - s) if label_a == label_b else beta * (s - threshold)))


def binomial_deviance(labels, x, **settings):
    """The mean over positives plus the mean over negatives: two means, not one."""
    values = []
    for a in range(len(x)):
        of_positives, of_negatives = (
            [binomial_deviance_cost(labels[a], labels[r], x[a], x[r], **settings) for r in rows]
            for rows in others_of(a, labels)
        )
        values.append(mean(of_positives) + mean(of_negatives))
    return np.array(values)


def margin_cost(label_a, label_b, a, b, margin=0.2, boundary=1.2, distance="euclidean"):
    """max(0, alpha + y (d - beta)) of unit embeddings."""
    d = distance_between(a / np.linalg.norm(a), b / np.linalg.norm(b), distance)
    y = 1 if label_a == label_b else -1
    return max(0, margin + y * (d - boundary))


def normalized_costs(costs, normalize):
    """Lists of costs, one list a row, as the values of the rows."""
    number = sum(len(row) for row in costs)
    if normalize == "active":
        number = sum(cost > 0 for row in costs for cost in row)
    return over_batch([sum(row) for row in costs], number)


def contrastive_of_batch(labels, x, normalize, negative_margin=1.0):
    rows = range(len(x))
    cost = functools.partial(weighted_contrastive_cost, negative_cost=lambda d: max(0, negative_margin - d) ** 2)
    costs = [[cost(labels[a], labels[r], x[a], x[r]) for r in rows if r != a] for a in rows]
    return normalized_costs(costs, normalize)


def margin_loss(labels, x, normalize="active", **settings):
    rows = range(len(x))
    costs = [[margin_cost(labels[a], labels[r], x[a], x[r], **settings) for r in rows if r != a] for a in rows]
    return normalized_costs(costs, normalize)


def margin_loss_of_consecutive(labels, x, normalize="active", **settings):
    return normalized_costs([[cost] for cost in consecutive(labels, x, margin_cost, **settings)], normalize)


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


def raw(labels, x, alpha=2.0, beta=50.0, threshold=0.5, margin=0.1):
    """RAW over valid triplets."""

    def keep(labels, s, a):
        return kept_by_valid_triplets(labels, s, a, margin)

    return multi_similarity(labels, x, alpha, beta, threshold, keep)


def triplet_cost(d_ap, d_an, margin, soft=False, ratio=False):
    if soft:
        return np.log1p(np.exp(d_ap - d_an))
    if ratio:
        return max(0, 1 - d_an / (margin + d_ap))
    return max(0, d_ap - d_an + margin)


def chosen_negatives(d, a, p, negatives, rule, band):
    """The negatives that make a triplet with a and p: all of them, or a list of at most one."""
    if rule is None or not negatives:
        return negatives
    if rule == "hardest":
        return [min(negatives, key=lambda n: d[a, n])]
    if band is None:
        farther = [n for n in negatives if d[a, n] > d[a, p]]
        return [min(farther, key=lambda n: d[a, n]) if farther else max(negatives, key=lambda n: d[a, n])]
    return sorted([n for n in negatives if d[a, p] < d[a, n] < d[a, p] + band], key=lambda n: d[a, n])[:1]


def triplet(
    labels,
    x,
    margin=0.2,
    distance="squared",
    soft=False,
    ratio=False,
    swap=False,
    negatives=None,
    band=None,
    normalize="all",
):
    """`negatives` is None, "hardest" or "semi_hard", the last of them with or without a `band`.

    With `swap`, a triplet whose negative is nearer to p counts for row p.
    """
    d = distances(x, distance)
    costs = [[] for _ in x]
    for a in range(len(x)):
        positives, others = others_of(a, labels)
        for p in positives:
            for n in chosen_negatives(d, a, p, others, negatives, band):
                row = p if swap and d[p, n] < d[a, n] else a
                costs[row].append(triplet_cost(d[a, p], d[row, n], margin, soft, ratio))
    return normalized_costs(costs, normalize)


def hierarchical_triplet(labels, x, margin=0.1):
    """With a tree that knows nothing yet; `tests/layers/test_class_tree.py` has others."""
    return triplet(labels, unit(x), margin=margin)


def batch_hard_triplet(labels, x, margin=0.2, distance="euclidean", soft=False, swap=False, normalize="all"):
    """With `swap`, the negative of the anchor is the one that is nearest to it; only then may p be nearer to it."""
    d = distances(x, distance)
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        if not positives or not negatives:
            values.append(0.0)
            continue
        p = max(positives, key=lambda row: d[a, row])
        n = min(negatives, key=lambda row: d[a, row])
        values.append(triplet_cost(d[a, p], min(d[a, n], d[p, n]) if swap else d[a, n], margin, soft))
    return over_batch(values, sum(value > 0 for value in values) if normalize == "active" else len(values))


def lifted_structure(labels, x, margin=1.0, hard=False, squared=True, distance="euclidean"):
    d = distances(x, distance)
    sums, number = [0.0] * len(x), 0
    for a in range(len(x)):
        for p in others_of(a, labels)[0]:
            number += 1
            pushes = [margin - d[end, n] for end in (a, p) for n in others_of(end, labels)[1]]
            if pushes:
                j = d[a, p] + (max(pushes) if hard else log_sum_exp(pushes))
                sums[a] += max(0, j) ** 2 / 2 if squared else max(0, j)
    return over_batch(sums, number)


def generalized_lifted(labels, x, margin=1.0, distance="euclidean"):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        pull = log_sum_exp([distance_between(x[a], x[p], distance) for p in positives])
        push = log_sum_exp([margin - distance_between(x[a], x[n], distance) for n in negatives])
        values.append(max(0.0, pull + push))
    return np.array(values)


def one_among(right, wrong):
    """-log of the softmax of one score among itself and others."""
    return log_sum_exp([right, *wrong]) - right


def n_pairs(labels, x, l2=0.0):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        wrong = [x[a] @ x[n] for n in negatives]
        norms = (x[a] @ x[a] + mean([row @ row for row in x])) / 2
        values.append(mean([one_among(x[a] @ x[p], wrong) for p in positives]) + l2 * norms)
    return np.array(values)


def n_pairs_even_against_odd(labels, x, l2=0.0):
    """Rows 0, 2, ... are the anchors, rows 1, 3, ... what they are compared with: one value an anchor."""
    values, odd = [], range(1, len(x), 2)
    for a in range(0, len(x), 2):
        wrong = [x[a] @ x[n] for n in odd if labels[n] != labels[a]]
        right = [x[a] @ x[p] for p in odd if labels[p] == labels[a]]
        norms = (x[a] @ x[a] + mean([x[r] @ x[r] for r in odd])) / 2
        values.append(mean([one_among(s, wrong) for s in right]) + l2 * norms)
    return np.array(values)


def nt_xent(labels, x, temperature=0.07):
    s = cosines(x) / temperature
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        values.append(mean([one_among(s[a, p], [s[a, n] for n in negatives]) for p in positives]))
    return np.array(values)


def clip(labels, x, temperature):
    """Half the cross-entropy of row i of the similarities, and half its terms in the cross-entropies of columns."""
    s = cosines(x) / temperature
    values = np.zeros(len(x))
    for i in range(len(x)):
        positives, negatives = others_of(i, labels)
        values[i] += mean([one_among(s[i, p], [s[i, n] for n in negatives]) for p in positives]) / 2
        for p in positives:
            values[p] += one_among(s[p, i], [s[n, i] for n in negatives]) / len(positives) / 2
    return values


def sigmoid(labels, x, scale, bias):
    s, values = cosines(x), []
    for i in range(len(x)):
        z = {j: 1 if labels[i] == labels[j] else -1 for j in range(len(x)) if j != i}
        values.append(sum(-np.log(1 / (1 + np.exp(-z[j] * (scale * s[i, j] + bias)))) for j in z))
    return np.array(values)


def sup_con(labels, x, temperature=0.1):
    s = cosines(x) / temperature
    values = []
    for a in range(len(x)):
        everyone = log_sum_exp([s[a, r] for r in range(len(x)) if r != a])
        values.append(mean([everyone - s[a, p] for p in others_of(a, labels)[0]]))
    return np.array(values)


def nca(labels, x, log=False):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        right = log_sum_exp([-distance_between(x[a], x[p], "squared") for p in positives])
        everyone = log_sum_exp([-distance_between(x[a], x[r], "squared") for r in positives + negatives])
        if not positives:
            values.append(0.0)
        else:
            values.append(everyone - right if log else 1 - np.exp(right - everyone))
    return np.array(values)


def circle(labels, x, margin=0.4, scale=80.0, fixed=None):
    s, held = cosines(x), cosines(x if fixed is None else fixed)
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        terms = [0.0]  # the 1 under the logarithm
        for p in positives:
            for n in negatives:
                pull = max(0, 1 + margin - held[a, p]) * (s[a, p] - 1 + margin)
                push = max(0, held[a, n] + margin) * (s[a, n] - margin)
                terms.append(scale * (push - pull))
        values.append(log_sum_exp(terms))
    return np.array(values)


def tuplet_margin(labels, x, margin_degrees=5.73, scale=64.0):
    s = np.clip(cosines(x), -1, 1)
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        nearer = [np.cos(np.arccos(s[a, p]) - margin_degrees * np.pi / 180) for p in positives]
        values.append(mean([log_sum_exp([0.0] + [scale * (s[a, n] - c) for n in negatives]) for c in nearer]))
    return np.array(values)


def hap2s(labels, x, margin=0.2, temperature=0.5, weighting="exponential", alpha=10.0, distance="cosine", fixed=None):
    d, held = distances(x, distance), distances(x if fixed is None else fixed, distance)
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        if not positives or not negatives:
            values.append(0.0)
            continue
        if weighting == "polynomial":
            q = {r: (1 + held[a, r]) ** (alpha if r in positives else -2 * alpha) for r in positives + negatives}
        else:
            q = {
                r: np.exp((held[a, r] if r in positives else -held[a, r]) / temperature) for r in positives + negatives
            }
        near = sum(q[p] * d[a, p] for p in positives) / sum(q[p] for p in positives)
        far = sum(q[n] * d[a, n] for n in negatives) / sum(q[n] for n in negatives)
        values.append(max(0.0, near - far + margin))
    return np.array(values)


def angular(labels, x, angle_degrees=45.0):
    x = unit(x)
    square = np.tan(angle_degrees * np.pi / 180) ** 2
    costs = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        for p in positives:
            f = [4 * square * (x[a] + x[p]) @ x[n] - 2 * (1 + square) * x[a] @ x[p] for n in negatives]
            costs.append(log_sum_exp([0.0, *f]))
    return np.full(len(x), mean(costs))


def quadruplet(labels, x, margin=1.0, second_margin=0.5, distance="squared"):
    d = distances(x, distance)
    triplets, quadruplets = [[] for _ in x], []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        for p in positives:
            for n in negatives:
                triplets[a].append(max(0, d[a, p] - d[a, n] + margin))
                for m in negatives:
                    if labels[m] != labels[n]:
                        quadruplets.append(max(0, d[a, p] - d[n, m] + second_margin))
    return normalized_costs(triplets, "all") + mean(quadruplets)


def histogram_of(values, low, high, bins):
    """Counts on bins + 1 nodes; a value between two nodes counts for both, the more the nearer it is."""
    width = (high - low) / bins
    nodes = [low + r * width for r in range(bins + 1)]
    return [sum(max(0, 1 - abs(value - node) / width) for value in values) for node in nodes]


def histogram(labels, x, bins=200):
    s, rows = cosines(x), range(len(x))
    positives = [s[a, p] for a in rows for p in others_of(a, labels)[0]]
    negatives = [s[a, n] for a in rows for n in others_of(a, labels)[1]]
    if not positives or not negatives:
        return np.zeros(len(x))
    h_p, h_n = histogram_of(positives, -1, 1, bins), histogram_of(negatives, -1, 1, bins)
    reversals = sum(h_n[r] * h_p[q] for r in range(bins + 1) for q in range(r + 1))
    return np.full(len(x), reversals / (len(positives) * len(negatives)))


def fast_ap(labels, x, bins=10):
    d = distances(unit(x), "squared")
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        if not positives:
            values.append(0.0)
            continue
        h_p = histogram_of([d[a, p] for p in positives], 0, 4, bins)
        h = histogram_of([d[a, r] for r in positives + negatives], 0, 4, bins)
        nodes = [j for j in range(bins + 1) if h_p[j] > 0]
        precision = sum(h_p[j] * sum(h_p[: j + 1]) / sum(h[: j + 1]) for j in nodes)
        values.append(1 - precision / len(positives))
    return np.array(values)


def smooth_ap(labels, x, temperature=0.01):
    s = cosines(x)
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        precisions = []
        for p in positives:
            before = {r: 1 / (1 + np.exp((s[a, p] - s[a, r]) / temperature)) for r in positives + negatives}
            rank = 1 + sum(before[q] for q in positives if q != p)
            precisions.append(rank / (rank + sum(before[n] for n in negatives)))
        values.append(1 - mean(precisions) if positives else 0.0)
    return np.array(values)


def pnp(labels, x, variant="original", temperature=0.01, alpha=1.0, b=2.0):
    penalties = {
        "original": lambda r: r,
        "decreasing_log": lambda r: np.log(1 + r),
        "decreasing_power": lambda r: 1 - 1 / (1 + r) ** alpha,
        "increasing_unbounded": lambda r: (1 + r) * np.log(1 + r),
        "increasing_bounded": lambda r: (b * r - np.log(1 + b * r)) / b**2,
    }
    s = cosines(x)
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        before = [sum(1 / (1 + np.exp((s[a, p] - s[a, n]) / temperature)) for n in negatives) for p in positives]
        values.append(mean([penalties[variant](r) for r in before]))
    return np.array(values)


def ranked_list(labels, x, margin=0.4, boundary=1.2, scale=10.0, positive_scale=0.0, balance=0.5, fixed=None):
    d, held = distances(unit(x), "euclidean"), distances(unit(x if fixed is None else fixed), "euclidean")
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        pulled = [p for p in positives if held[a, p] > boundary - margin]
        pushed = [n for n in negatives if held[a, n] < boundary]
        w = {p: np.exp(positive_scale * (held[a, p] - boundary + margin)) for p in pulled}
        w.update({n: np.exp(scale * (boundary - held[a, n])) for n in pushed})
        pull = sum(w[p] / sum(w[q] for q in pulled) * (d[a, p] - boundary + margin) for p in pulled)
        push = sum(w[n] / sum(w[m] for m in pushed) * (boundary - d[a, n]) for n in pushed)
        values.append((1 - balance) * pull + balance * push)
    return np.array(values)


def intra_pair_variance(labels, x, positive_epsilon=0.01, negative_epsilon=0.01):
    s, rows = cosines(x), range(len(x))
    m_p = mean([s[a, p] for a in rows for p in others_of(a, labels)[0]])
    m_n = mean([s[a, n] for a in rows for n in others_of(a, labels)[1]])
    pulls = [[max(0, (1 - positive_epsilon) * m_p - s[a, p]) ** 2 for p in others_of(a, labels)[0]] for a in rows]
    pushes = [[max(0, s[a, n] - (1 + negative_epsilon) * m_n) ** 2 for n in others_of(a, labels)[1]] for a in rows]
    return normalized_costs(pulls, "all") + normalized_costs(pushes, "all")


def threshold_consistency(
    labels, x, positive_threshold=0.9, negative_threshold=0.5, positive_weight=1.0, negative_weight=1.0
):
    s, rows = cosines(x), range(len(x))
    pulls = [[max(0, positive_threshold - s[a, p]) for p in others_of(a, labels)[0]] for a in rows]
    pushes = [[max(0, s[a, n] - negative_threshold) for n in others_of(a, labels)[1]] for a in rows]
    return positive_weight * normalized_costs(pulls, "active") + negative_weight * normalized_costs(pushes, "active")


def dynamic_soft_margin(labels, x, bins=512, negatives="hardest", fixed=None, history=None, momentum=0.01):
    """`negatives` is "hardest" or None, for all of them. `history` is the histogram of earlier batches."""
    d, held = distances(unit(x), "euclidean"), distances(unit(x if fixed is None else fixed), "euclidean")
    triplets = [
        (a, p, n)
        for a in range(len(x))
        for p in others_of(a, labels)[0]
        for n in chosen_negatives(held, a, p, others_of(a, labels)[1], negatives, None)
    ]
    if not triplets:
        return np.zeros(len(x))
    differences = [held[a, p] - held[a, n] for a, p, n in triplets]
    shares = np.array(histogram_of(differences, -2, 2, bins)) / len(triplets)
    if history is not None:
        shares = (1 - momentum) * history + momentum * shares
    sums = [0.0] * len(x)
    for (a, p, n), difference in zip(triplets, differences, strict=True):
        node = min(int((difference + 2) / (4 / bins)), bins - 1)
        sums[a] += sum(shares[: node + 1]) * (d[a, p] - d[a, n])
    return over_batch(sums, len(triplets))


def clusters_of(d, medoids):
    """The nearest medoid of each row; a medoid is its own."""
    return [row if row in medoids else min(medoids, key=lambda medoid: d[row, medoid]) for row in range(len(d))]


def clustering(labels, x, margin=1.0, refinements=5):
    """Greedy loss-augmented inference, refined by swaps of medoids with members of their clusters."""
    d, rows = distances(x, "euclidean"), range(len(x))

    def distance_to_classes(medoids):
        return 1 - normalized_mutual_info_score(labels, clusters_of(d, medoids), average_method="geometric")

    def score(medoids):
        return -sum(min(d[row, medoid] for medoid in medoids) for row in rows)

    def first_best(candidates, value):
        values = [value(candidate) for candidate in candidates]
        return next(c for c, v in zip(candidates, values, strict=True) if v >= max(values) - 1e-9)

    medoids = []
    for _ in set(labels):
        new = [row for row in rows if row not in medoids]
        augmented = {row: score([*medoids, row]) + margin * distance_to_classes([*medoids, row]) for row in new}
        medoids.append(first_best(new, augmented.get))
    for _ in range(refinements):
        clusters = clusters_of(d, medoids)
        clusters = [[row for row in rows if clusters[row] == medoid] for medoid in medoids]
        for k, members in enumerate(clusters):
            swapped = {row: [*medoids[:k], row, *medoids[k + 1 :]] for row in members}
            augmented = {
                row: margin * distance_to_classes(swap) - sum(d[member, row] for member in members)
                for row, swap in swapped.items()
            }
            medoids[k] = first_best(members, augmented.get)
    classes = [[row for row in rows if labels[row] == label] for label in set(labels)]
    of_classes = -sum(min(sum(d[member, row] for member in members) for row in members) for members in classes)
    value = score(medoids) + margin * distance_to_classes(medoids) - of_classes
    return np.full(len(x), max(0.0, value))


def manifold(labels, x, alpha=0.8, margin=5e-4, context_weight=1.0):
    """The rows stand in the graph twice: as anchors and as references."""
    n, nodes = len(x), np.concatenate([x, x])
    s = np.exp(np.maximum(cosines(nodes), 0) / 0.5)
    np.fill_diagonal(s, 0.0)
    walks = (1 - alpha) * np.linalg.inv(np.eye(2 * n) - alpha * s / np.sqrt(np.outer(s.sum(1), s.sum(1))))
    values = []
    for a in range(n):
        positives, negatives = others_of(a, labels)
        contexts = {r: cosine_between(walks[a], walks[n + r]) for r in positives + negatives}
        value = 0.0
        for weight, f in ((1.0, {r: walks[a, n + r] for r in positives + negatives}), (context_weight, contexts)):
            exponents = [f[r] - mean([f[p] for p in positives]) + margin for r in negatives] if positives else []
            value += weight * np.log(1 + sum(np.exp(exponent) for exponent in exponents if exponent >= 0))
        values.append(value)
    return np.array(values)


def coupled_clusters(labels, x, margin=0.2):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        if not positives or not negatives:
            values.append(0.0)
            continue
        centre = mean([x[r] for r in [a, *positives]])
        nearest = min(distance_between(x[n], centre, "squared") for n in negatives)
        values.append(max(0, distance_between(x[a], centre, "squared") - nearest + margin) / 2)
    return np.array(values)


def centroid_triplet(labels, x, margin=0.3, hard=False):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        if not positives or not negatives:
            values.append(0.0)
            continue
        near = distance_between(x[a], mean([x[p] for p in positives]), "squared")
        others = sorted({labels[n] for n in negatives})
        centers = [mean([x[r] for r in range(len(x)) if labels[r] == label]) for label in others]
        costs = [max(0, near - distance_between(x[a], center, "squared") + margin) for center in centers]
        values.append(max(costs) if hard else mean(costs))
    return np.array(values)


def magnet(labels, x, clusters_per_class=1, margin=1.0):
    rows = range(len(x))
    centers = {label: mean([x[r] for r in rows if labels[r] == label]) for label in labels}
    d = [{label: distance_between(x[a], center, "squared") for label, center in centers.items()} for a in rows]
    variance = max(sum(d[a][labels[a]] for a in rows) / max(len(x) - 1, 1), 1e-7)
    values = []
    for a in rows:
        others = [label for label in centers if label // clusters_per_class != labels[a] // clusters_per_class]
        if list(labels).count(labels[a]) == 1 or not others:
            values.append(0.0)
            continue
        exponents = [-d[a][label] / (2 * variance) for label in others]
        values.append(max(0, d[a][labels[a]] / (2 * variance) + margin + log_sum_exp(exponents)))
    return np.array(values)


def global_distances(labels, x, margin=0.4, weight=0.8):
    """NumPy's mean and variance of the squared distances of unit vectors, divided by 4."""
    x, d = unit(x), {True: [], False: []}
    for a in range(len(x)):
        for r in range(len(x)):
            if r != a:
                d[labels[a] == labels[r]].append(((x[a] - x[r]) ** 2).sum() / 4)
    value = sum(np.var(values) for values in d.values() if values)
    if d[True] and d[False]:
        value += weight * max(0, np.mean(d[True]) - np.mean(d[False]) + margin)
    return np.full(len(x), value)


def xing(labels, x):
    similar = [distance_between(x[a], x[p], "squared") for a in range(len(x)) for p in others_of(a, labels)[0]]
    dissimilar = [distance_between(x[a], x[n], "euclidean") for a in range(len(x)) for n in others_of(a, labels)[1]]
    return np.full(len(x), mean(similar) - (np.log(mean(dissimilar)) if dissimilar else 0))


def lmnn(labels, x, margin=1.0, mu=0.5, neighbors=3, fixed=None):
    d, held = distances(x, "squared"), distances(x if fixed is None else fixed, "squared")
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        targets = sorted(positives, key=lambda p: held[a, p])[:neighbors]
        push = sum(max(0, d[a, p] - d[a, n] + margin) for p in targets for n in negatives)
        values.append((1 - mu) * sum(d[a, p] for p in targets) + mu * push)
    return np.array(values)


def prototypical(labels, x, shots=1):
    """The first `shots` rows of a class are its support, the others queries."""
    members = {label: [r for r in range(len(x)) if labels[r] == label] for label in labels}
    centres = {label: mean([x[r] for r in rows[:shots]]) for label, rows in members.items()}
    sums, queries = [0.0] * len(x), 0
    for label, rows in members.items():
        for q in rows[shots:]:
            queries += 1
            d = {other: distance_between(x[q], centre, "squared") for other, centre in centres.items()}
            sums[q] = d[label] + log_sum_exp([-far for far in d.values()])
    return over_batch(sums, queries)


def contrastive_pair(label_a, label_b, a, b, positive_margin=0.0, negative_margin=1.0):
    d = distance_between(a, b, "euclidean")
    return max(0, d - positive_margin) ** 2 if label_a == label_b else max(0, negative_margin - d) ** 2


def margin_on_similarities(label_a, label_b, a, b, margin=0.2, threshold=0.5):
    y = 1 if label_a == label_b else -1
    return max(0.0, margin + y * (threshold - cosine_between(a, b)))


def robust(labels, x, cost, weights, fixed=None, **settings):
    """`weights` maps the costs above 0, a dict of pair to cost, to their p*; the costs of `fixed` decide."""
    rows = range(len(x))

    def costs(x):
        return {(a, r): cost(labels[a], labels[r], x[a], x[r], **settings) for a in rows for r in rows if a != r}

    of_pairs, deciding = costs(x), costs(x if fixed is None else fixed)
    p = weights({pair: value for pair, value in deciding.items() if value > 0}, labels)
    return np.array([len(x) * sum(p.get((a, r), 0) * of_pairs[a, r] for r in rows if r != a) for a in rows])


def _ranked(costs, k):
    """Shares of the k largest, those that tie for the last places sharing them (to 1e-6, as floats round)."""
    if not costs or not k:
        return {}
    least = sorted(costs.values(), reverse=True)[:k][-1]
    above = [pair for pair, value in costs.items() if value > least * (1 + 1e-6)]
    equal = [pair for pair, value in costs.items() if abs(value / least - 1) <= 1e-6]
    left = min(k, len(costs)) - len(above)
    return {**{pair: 1.0 for pair in above}, **{pair: left / len(equal) for pair in equal}}


def _divided(shares):
    total = sum(shares.values())
    return {pair: share / total for pair, share in shares.items()}


def top_k(costs, labels, k):
    return _divided(_ranked(costs, k))


def top_k_balanced(costs, labels, k):
    of_each = [{}, {}]
    for (a, r), value in costs.items():
        of_each[int(labels[a] == labels[r])][a, r] = value
    return _divided({**_ranked(of_each[0], k // 2), **_ranked(of_each[1], k // 2)})


def kl(costs, labels, gamma=0.1):
    return _divided({pair: np.exp((value - max(costs.values())) / gamma) for pair, value in costs.items()})


def grouped_kl(costs, labels, gamma=1.0, negative_gamma=None, pseudo_loss=None):
    p = {}
    for a in range(len(labels)):
        for same, temperature in ((True, gamma), (False, negative_gamma or gamma)):
            group = {pair: v for pair, v in costs.items() if pair[0] == a and (labels[a] == labels[pair[1]]) == same}
            total = sum(np.exp(value / temperature) for value in group.values())
            total += 0 if pseudo_loss is None else np.exp(pseudo_loss / temperature)
            p |= {pair: np.exp(value / temperature) / total / len(labels) for pair, value in group.items()}
    return p


def variance(costs, labels, rho=1.0):
    """By bisection on eta: p proportional to max(0, l - eta), which is what the conditions of the maximum say."""
    if not costs:
        return {}
    values = np.array(list(costs.values()))
    n = len(values)

    def shares(eta):
        p = np.maximum(values - eta, 0)
        return p / p.sum()

    low, high = values.min() - 1e6 * (1 + np.ptp(values)), values.max() * (1 - 1e-12)
    if n * np.sum(shares(high) ** 2) > 1 + 2 * rho / n:
        for _ in range(300):
            middle = (low + high) / 2
            low, high = (low, middle) if n * np.sum(shares(middle) ** 2) > 1 + 2 * rho / n else (middle, high)
    return dict(zip(costs, shares(low if n * np.sum(shares(high) ** 2) > 1 + 2 * rho / n else high), strict=True))


def maximal(costs, labels):
    return top_k(costs, labels, 1)


def among_negatives(labels, x, positive, negative):
    """Each anchor's mean cross-entropy of a positive among the negatives, by functions of the cosine for the logits."""
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        against = [negative(cosine_between(x[a], x[n])) for n in negatives]
        logits = [positive(cosine_between(x[a], x[p])) for p in positives]
        values.append(mean([log_sum_exp([logit, *against]) - logit for logit in logits]))
    return np.array(values, dtype=float)


def normalized_softmax(labels, x, scale=64.0):
    return among_negatives(labels, x, lambda c: scale * c, lambda c: scale * c)


def cosface(labels, x, margin=0.35, scale=64.0):
    return among_negatives(labels, x, lambda c: scale * (c - margin), lambda c: scale * c)


def arcface(labels, x, margin=0.5, scale=64.0):
    def positive(c):
        angle = np.arccos(np.clip(c, -1, 1))
        return scale * (np.cos(angle + margin) if angle <= np.pi - margin else c - margin * np.sin(margin))

    return among_negatives(labels, x, positive, lambda c: scale * c)


def sphereface(labels, x, margin=4, scale=64.0):
    def positive(c):
        angle = np.arccos(np.clip(c, -1, 1))
        k = min(np.floor(margin * angle / np.pi), margin - 1)
        return scale * ((-1) ** k * np.cos(margin * angle) - 2 * k)

    if scale == "norm":
        return np.array([sphereface(labels, x, margin, np.linalg.norm(x[a]))[a] for a in range(len(x))])
    return among_negatives(labels, x, positive, lambda c: scale * c)


def magface(labels, x, norms=(10.0, 110.0), margins=(0.45, 0.8), regularization=35.0, scale=64.0):
    clipped = np.clip(np.linalg.norm(x, axis=1), *norms)
    slack = np.interp(clipped, norms, margins)
    values = [arcface(labels, x, margin=slack[a], scale=scale)[a] for a in range(len(x))]
    with_positives = [len(others_of(a, labels)[0]) > 0 for a in range(len(x))]
    return np.array(values) + regularization * (1 / clipped + clipped / norms[1] ** 2) * with_positives


def large_margin_softmax(labels, x, margin=4, scale=1.0):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        logits = []
        for p in positives:
            angle = np.arccos(np.clip(cosine_between(x[a], x[p]), -1, 1))
            k = min(np.floor(margin * angle / np.pi), margin - 1)
            size = np.linalg.norm(x[a]) * np.linalg.norm(x[p])
            logits.append(scale * size * ((-1) ** k * np.cos(margin * angle) - 2 * k))
        against = [scale * (x[a] @ x[n]) for n in negatives]
        values.append(mean([log_sum_exp([logit, *against]) - logit for logit in logits]))
    return np.array(values, dtype=float)


def p2s_grad(labels, x):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        pull = sum((1 - cosine_between(x[a], x[p])) ** 2 for p in positives)
        values.append((pull + sum(cosine_between(x[a], x[n]) ** 2 for n in negatives)) / 2)
    return np.array(values, dtype=float)


def center_loss(labels, x):
    squares = [[((x[a] - x[p]) ** 2).sum() / 2 for p in others_of(a, labels)[0]] for a in range(len(x))]
    return np.array([mean(of_anchor) for of_anchor in squares], dtype=float)


def instance(labels, x, scale=64.0):
    values = []
    for a in range(len(x)):
        negatives = others_of(a, labels)[1]
        values.append(log_sum_exp([scale, *(scale * cosine_between(x[a], x[n]) for n in negatives)]) - scale)
    return np.array(values, dtype=float)


def proxy_nca(labels, x, scale=1.0, positive_in_denominator=False):
    values = []
    for a in range(len(x)):
        positives, negatives = others_of(a, labels)
        squares = [((unit(x)[a] - row) ** 2).sum() for row in unit(x)]
        against = log_sum_exp([-scale * squares[n] for n in negatives])
        terms = [
            scale * squares[p] + (np.logaddexp(-scale * squares[p], against) if positive_in_denominator else against)
            for p in positives
        ]
        values.append(mean(terms) if negatives else 0.0)
    return np.array(values, dtype=float)


def proxy_anchor(labels, x, margin=0.1, alpha=32.0):
    pull, push = [], []
    for r in range(len(x)):
        positives, negatives = others_of(r, labels)
        if positives:
            pull.append(log_sum_exp([0, *(-alpha * (cosine_between(x[p], x[r]) - margin) for p in positives)]))
        push.append(log_sum_exp([0, *(alpha * (cosine_between(x[n], x[r]) + margin) for n in negatives)]))
    return np.full(len(x), mean(pull) + mean(push))


def matryoshka(labels, x, base, dims, weights=None):
    """`base(labels, x)` of the first columns."""
    return sum(w * base(labels, x[:, :dim]) for dim, w in zip(dims, weights or [1] * len(dims), strict=True))


def learners(x, dims):
    """The columns of each learner, scaled to norm 1."""
    return [unit(part) for part in np.split(x, np.cumsum(dims)[:-1], axis=1)]


def cascade(labels, x, cost, dims, shares, fixed=None):
    """`cost` is as in `mean_over_pairs`; each learner has the hardest pairs of the one before, of each sign."""
    rows = range(len(x))
    every = [(a, r) for a in rows for r in rows if a != r]
    groups = [[p for p in every if (labels[p[0]] == labels[p[1]]) == same] for same in (True, False)]
    numbers = [len(group) for group in groups]
    values = np.zeros(len(x))
    ranked_by = learners(x if fixed is None else fixed, dims)
    for k, learner in enumerate(learners(x, dims)):
        kept = [pair for group in groups for pair in group]
        for a in rows:
            mine = [cost(labels[a], labels[r], learner[a], learner[r]) for b, r in kept if b == a]
            values[a] += mean(mine)
        if k < len(shares):
            losses = {(a, r): cost(labels[a], labels[r], ranked_by[k][a], ranked_by[k][r]) for a, r in kept}
            groups = [
                hardest(group, losses, int(np.round(shares[k] * number)))
                for group, number in zip(groups, numbers, strict=True)
            ]
    return values


def hardest(group, losses, number):
    """The pairs with the largest losses above 0, with those that tie with the last."""
    ordered = sorted((losses[pair] for pair in group), reverse=True)[: max(number, 1)]
    return [pair for pair in group if losses[pair] > 0 and losses[pair] >= ordered[-1] * (1 - 1e-5)]


def boosted(labels, x, dims, alpha=2.0, beta=50.0, threshold=0.5, fixed=None):
    parts, constants = learners(x, dims), learners(x if fixed is None else fixed, dims)
    values, ensemble = np.zeros(len(x)), np.zeros((len(x), len(x)))
    weights = np.ones((len(x), len(x)))
    for m, (part, constant) in enumerate(zip(parts, constants, strict=True), start=1):
        for a in range(len(x)):
            positives, negatives = others_of(a, labels)
            s = [cosine_between(part[a], other) for other in part]
            values[a] += mean([weights[a, p] * np.log1p(np.exp(alpha * (threshold - s[p]))) for p in positives])
            values[a] += mean([weights[a, n] * np.log1p(np.exp(beta * (s[n] - threshold))) for n in negatives])
        ensemble += 2 / (m + 1) * (cosines(constant) - ensemble)
        for a in range(len(x)):
            for r in range(len(x)):
                same = labels[a] == labels[r]
                z = alpha * (threshold - ensemble[a, r]) if same else beta * (ensemble[a, r] - threshold)
                weights[a, r] = 1 / (1 + np.exp(-z))
    return values / len(dims)


def divergence(labels, x, base, dims, margin=1.0, weight=1.0):
    parts = learners(x, dims)
    values = sum(base(labels, part) for part in parts)
    for m, first in enumerate(parts):
        for second in parts[m + 1 :]:
            values = values + weight * np.maximum(0, margin - ((first - second) ** 2).sum(axis=1))
    return values if len(x) > 1 else np.zeros(1)


def adversarial(labels, x, base, dims, regressors, weight=1.0):
    parts, values = learners(x, dims), base(labels, x)
    networks = iter(regressors.networks)
    for k in range(len(dims)):
        for m in range(k + 1, len(dims)):
            kernel, bias, last_kernel, last_bias = (np.asarray(each, float) for each in next(networks))
            kernel, last_kernel = (w / np.linalg.norm(w, axis=0) for w in (kernel, last_kernel))
            bias, last_bias = (b / max(1, np.linalg.norm(b)) for b in (bias, last_bias))
            for a in range(len(x)):
                hidden = np.maximum(0, parts[m][a] @ kernel + bias)
                values[a] += weight * ((parts[k][a] * (hidden @ last_kernel + last_bias)) ** 2).mean()
    return values if len(x) > 1 else np.zeros(1)


def similarity_of_pddm(x, y, weights):
    """Weights are (kernel, bias) of the difference, the mean, the joint layer and the score."""
    layers = [(np.asarray(kernel, float), np.asarray(bias, float)) for kernel, bias in weights]

    def dense(x, layer):
        return np.maximum(0, x @ layer[0] + layer[1])

    def unit_or_zero(x):
        norm = np.linalg.norm(x)
        return x / norm if norm > 0 else x

    u, v = dense(unit_or_zero(np.abs(x - y)), layers[0]), dense(unit_or_zero((x + y) / 2), layers[1])
    return (dense(np.concatenate([u, v]), layers[2]) @ layers[3][0] + layers[3][1])[0]


def pddm(labels, x, metric, margin=0.5, distance_margin=1.0, weight=0.5, fixed=None):
    weights = [getattr(metric, name) for name in ("difference", "mean", "joint", "score")]
    constant = unit(x if fixed is None else fixed)
    s = np.array([[similarity_of_pddm(a, b, weights) for b in constant] for a in constant])
    x, values = unit(x), np.zeros(len(x))
    hardest_negative = [max(others_of(a, labels)[1], key=lambda n: s[a, n], default=None) for a in range(len(x))]
    for a, n in enumerate(hardest_negative):
        p = min(others_of(a, labels)[0], key=lambda p: s[a, p], default=None)
        if p is None or n is None:
            continue
        s_ap, d_ap = similarity_of_pddm(x[a], x[p], weights), ((x[a] - x[p]) ** 2).sum()
        for one, other in ((a, n), (p, hardest_negative[p])):
            values[a] += max(0, margin + similarity_of_pddm(x[one], x[other], weights) - s_ap)
            values[a] += weight * max(0, distance_margin + d_ap - ((x[one] - x[other]) ** 2).sum())
    return values
