"""Expected metrics under random tie-breaking."""

import numpy as np

from tfdml.metrics.retrieval.measures import discounts, ideal_dcg


def expected_values(above, equal, total, cutoffs, gains=None, best=None):
    """Metrics of one query, a dict of floats, averaged over all orders of the items that share a score.

    A score shared by n items, m of them relevant, follows `above` items, a of them relevant. At the t-th place of this
    score, rank p = above + t, in random order:

        E[rel(p)] = m / n
        E[grade(p)] = (sum of the m grades) / n
        E[rel(p) sum_{i<=p} rel(i)] = m / n (a + 1 + (t - 1) (m - 1) / (n - 1))

    Precision, nDCG and average precision follow. None of the first t places of the best relevant score is relevant with
    probability prod_{i<t} (n - m - i) / (n - i).

    `above` and `equal` are the numbers of items with a higher score and with the same score, itself included, for each
    relevant item, ascending if there are grades, `gains`. Without items that neither have the best relevant score nor
    rank within R = `total` or the last cutoff, `map` is wrong. `best` are the `ideal_gains` of `values_of_ranks`.
    """
    above, first, m = np.unique(above, return_index=True, return_counts=True)
    n = equal[first]
    relevant_above = np.cumsum(m) - m

    t = np.arange(1, n.sum() + 1) - np.repeat(np.cumsum(n) - n, n)
    p = np.repeat(above, n) + t
    others = np.repeat((m - 1) / np.maximum(n - 1, 1), n)
    hit = np.repeat(m / n, n)
    gain = hit if gains is None else np.repeat(np.add.reduceat(gains, first) / n, n)
    precision = hit * (np.repeat(relevant_above, n) + 1 + (t - 1) * others) / p
    within = p <= total

    drawn = np.arange(n[0])
    none_yet = np.concatenate([[1.0], np.cumprod(np.maximum(n[0] - m[0] - drawn, 0) / (n[0] - drawn))])
    first_at = none_yet[:-1] - none_yet[1:]

    at_k = {
        "recall": lambda k: float(1 - none_yet[np.clip(k - above[0], 0, n[0])]),
        "precision": lambda k: hit[p <= k].sum() / k,
        "ndcg": lambda k: (gain * discounts(p, k)).sum() / ideal_dcg(total, k, best),
        "map": lambda k: precision[p <= k].sum() / total,
    }
    return {
        **{str(cutoff): at_k[cutoff.measure](cutoff.k) for cutoff in cutoffs},
        "precision@1": at_k["recall"](1),
        "r_precision": hit[within].sum() / total,
        "map@r": precision[within].sum() / total,
        "map": precision.sum() / total,
        "mrr": (first_at / (above[0] + drawn + 1)).sum(),
    }
