"""Few-shot classification by prototypes."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, require, require_one_of, require_varied, require_whole
from tfdml.metrics.classification import closeness
from tfdml.search.scores import l2_normalize
from tfdml.typing import Labels

_NUMBERS = 2**22  # Random keys and coordinates of the episodes that are measured at the same time.


def few_shot(
    embeddings: npt.ArrayLike,
    labels: Labels,
    *,
    ways: int = 5,
    shots: int = 1,
    queries: int = 15,
    episodes: int = 600,
    seed: int = 0,
    groups: npt.ArrayLike | None = None,
    metric: str = "euclidean",
    per_episode: bool = False,
) -> dict[str, Any]:
    """Accuracy of N-way K-shot classification by the nearest prototype, over random episodes.

    An episode draws N classes, and from each of them K support examples and Q queries, all without replacement and with
    equal probabilities, as `tfdml.samplers.EpisodeSampler` does. The prototype of a class is the mean of its support.
    Each query gets the class of the nearest prototype, and the accuracy of the episode is the share of its N * Q
    queries that get their own class.

        accuracy = mean over episodes
        interval = 1.96 * sample standard deviation over episodes / sqrt(episodes)

    With `groups`, support and queries of a class are apart: its support comes from one of its groups, drawn with equal
    probabilities from those with K examples that leave Q examples outside, and its queries from its other groups. A
    query may, as the harder case, have the group of the support of another class.

    The interval covers the draw of episodes for one model. It does not cover the training seed or the choice of
    classes: report several seeds as well.

    Example: every query is nearest to the other example of its class.

        >>> x = np.array([[0.0], [1.0], [10.0], [11.0]])
        >>> tfdml.metrics.few_shot(x, [0, 0, 1, 1], ways=2, shots=1, queries=1)
        {'accuracy': 1.0, 'interval': 0.0}

    Args:
        embeddings: `(n, dim)` floats.
        labels: `(n,)` integer class ids, any int64.
        ways: N, classes in an episode, at least 2.
        shots: K, support examples per class.
        queries: Q, queries per class.
        episodes: number of episodes, at least 2.
        seed: seed of the draws, 0 or more; the same seed gives the same episodes.
        groups: `(n,)` integers, such as typeface, writer, camera or session; the support and the queries of a class
            never share one; None for no such condition.
        metric: "euclidean", as in prototypical networks, or "cosine": the function normalizes embeddings, and compares
            them with the direction of the prototype.
        per_episode: return the accuracy of each episode instead of the mean. Models with the same labels, groups and
            settings see the same episodes, so you can subtract their values.

    Returns:
        dict of floats: `accuracy`, and `interval`, the half-width of its 95% confidence interval. With `per_episode`,
        dict of `accuracy`, `(episodes,)` float64.

    Source: Snell, Swersky, Zemel, Prototypical Networks for Few-shot Learning, NIPS 2017.
    """
    for name, value, least in (("ways", ways, 2), ("shots", shots, 1), ("queries", queries, 1)):
        require_whole(name, value, least)
    require_whole("episodes", episodes, 2)
    require_whole("seed", seed, 0)
    require_one_of(("euclidean", "cosine"), metric=metric)
    x = as_vectors(embeddings, "embeddings")
    classes = _classes(as_ids(labels, "labels", len(x)), groups, ways, shots, queries)
    require_varied(x)
    x = l2_normalize(x) if metric == "cosine" else x
    rng = np.random.default_rng(seed)
    steps = _episodes_per_step(episodes, classes.members, x.shape[1], ways, shots + queries)
    rows = (_episode_rows(classes, rng, count, ways, shots, queries) for count in steps)
    accuracies = np.concatenate([_accuracies(x[chunk], shots, metric) for chunk in rows])
    if per_episode:
        return {"accuracy": accuracies}
    interval = 1.96 * accuracies.std(ddof=1) / np.sqrt(episodes)
    return {"accuracy": float(accuracies.mean()), "interval": float(interval)}


class _Classes(NamedTuple):
    """Rows of each class and their dense group ids, `(classes, size of the largest)`, -1 after the last.

    `is_support_group` is `(classes, groups)` bool. Without groups, both fields of groups are None.
    """

    members: np.ndarray
    groups: np.ndarray | None = None
    is_support_group: np.ndarray | None = None


def _classes(labels, groups, ways, shots, queries):
    ids, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    require(len(ids) >= ways, f"ways={ways} and labels of {len(ids)} classes", "a class for each way. Lower ways")
    _require_enough(ids, counts, shots, queries)
    members = np.full((len(ids), counts.max()), -1)
    members[np.arange(counts.max()) < counts[:, None]] = np.argsort(codes, kind="stable")
    if groups is None:
        return _Classes(members)
    group_of_row, sizes = _groups_of_classes(codes, as_ids(groups, "groups", len(labels)))
    is_support_group = (sizes >= shots) & (counts[:, None] - sizes >= queries)
    _require_group(ids, is_support_group, shots, queries)
    return _Classes(members, np.where(members >= 0, group_of_row[members], -1), is_support_group)


def _require_enough(ids, counts, shots, queries):
    short = np.flatnonzero(counts < shots + queries)
    if len(short):
        worst = short[counts[short].argmin()]
        raise ValueError(
            f"Received labels with {len(short)} of {len(ids)} classes of fewer than shots + queries = "
            f"{shots} + {queries} examples (class {ids[worst]} has {counts[worst]}), expected that number in each. "
            "Lower one of the two, or leave these classes out."
        )


def _require_group(ids, is_support_group, shots, queries):
    without = ids[~is_support_group.any(axis=1)]
    if len(without):
        raise ValueError(
            f"Received groups with {len(without)} of {len(ids)} classes (class {without[0]} is one) in which no group "
            f"has shots={shots} examples and leaves queries={queries} in other groups, expected such a group in each. "
            "Lower one of the two, or leave these classes out."
        )


def _groups_of_classes(codes, groups):
    """Dense group ids in each class, `(n,)`, and the number of examples of each group, `(classes, groups)`."""
    pairs = np.stack([codes, np.unique(groups, return_inverse=True)[1]], axis=1)
    distinct, pair_of_row, sizes = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    class_of_pair = distinct[:, 0]
    rank = np.arange(len(distinct)) - np.searchsorted(class_of_pair, class_of_pair)
    table = np.zeros((codes.max() + 1, rank.max() + 1), np.int64)
    table[class_of_pair, rank] = sizes
    return rank[pair_of_row.reshape(-1)], table


def _episodes_per_step(episodes, members, dim, ways, examples):
    """Numbers of episodes to measure at the same time; their sum is `episodes`."""
    classes, largest = members.shape
    step = max(1, _NUMBERS // (classes + ways * (largest + examples * dim)))
    return [min(step, episodes - start) for start in range(0, episodes, step)]


def _episode_rows(classes, rng, count, ways, shots, queries):
    """Rows of random episodes, `(count, ways, shots + queries)`, the support of each class first."""
    chosen = rng.random((count, len(classes.members))).argpartition(ways - 1, axis=1)[:, :ways]
    rows = classes.members[chosen]
    keys = np.where(rows >= 0, rng.random(rows.shape), 2)
    if classes.groups is None:
        drawn = keys.argpartition([shots - 1, shots + queries - 1], axis=2)[..., : shots + queries]
    else:
        is_possible = classes.is_support_group[chosen]
        group = np.where(is_possible, rng.random(is_possible.shape), -1).argmax(axis=2)[..., None]
        is_support = classes.groups[chosen] == group
        support = np.where(is_support, keys, 2).argpartition(shots - 1, axis=2)[..., :shots]
        drawn = np.where(is_support, 2, keys).argpartition(queries - 1, axis=2)[..., :queries]
        drawn = np.concatenate([support, drawn], axis=2)
    return np.take_along_axis(rows, drawn, axis=2)


def _accuracies(episodes, shots, metric):
    """Accuracy of each episode: `(count,)`, from embeddings `(count, ways, shots + queries, dim)`."""
    count, ways, _, dim = episodes.shape
    prototypes = episodes[:, :, :shots].mean(axis=2, dtype=np.float64)
    queries = episodes[:, :, shots:].astype(np.float64).reshape(count, -1, dim)
    squares = np.square(prototypes).sum(axis=2)[:, None]
    scores = closeness(queries @ prototypes.transpose(0, 2, 1), squares, metric)
    labels = np.repeat(np.arange(ways), queries.shape[1] // ways)
    return (scores.argmax(axis=2) == labels).mean(axis=1)
