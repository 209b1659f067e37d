"""Few-shot classification by prototypes."""

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, require, require_one_of, require_varied, require_whole
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
    metric: str = "euclidean",
) -> dict[str, float]:
    """Accuracy of N-way K-shot classification by the nearest prototype, over random episodes.

    An episode draws N classes, and from each of them K support examples and Q queries, all without replacement and
    with equal probabilities, as `tfdml.samplers.EpisodeSampler` does. The prototype of a class is the mean of its
    support. A query is assigned to the nearest prototype, and the accuracy of the episode is the share of its N * Q
    queries that are assigned to their class. With equal distances the earlier class of the episode, in an arbitrary
    order, is taken.

        accuracy = mean over episodes
        interval = 1.96 * sample standard deviation over episodes / sqrt(episodes)

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
        metric: "euclidean", as in prototypical networks, or "cosine": embeddings are normalized here, and compared with
            the direction of the prototype.

    Returns:
        dict of floats: `accuracy`, and `interval`, the half-width of its 95% confidence interval, so that callbacks
        can log both.

    Raises:
        ValueError: fewer classes than `ways`; a class with fewer than K + Q examples; embeddings that are not finite or
            all the same; a setting out of range.

    Source: Snell, Swersky, Zemel, Prototypical Networks for Few-shot Learning, NIPS 2017.
    """
    for name, value, least in (("ways", ways, 2), ("shots", shots, 1), ("queries", queries, 1)):
        require_whole(name, value, least)
    require_whole("episodes", episodes, 2)
    require_whole("seed", seed, 0)
    require_one_of(("euclidean", "cosine"), metric=metric)
    x = as_vectors(embeddings, "embeddings")
    members = _members(as_ids(labels, "labels", len(x)), ways, shots, queries)
    require_varied(x)
    x = l2_normalize(x) if metric == "cosine" else x
    rng = np.random.default_rng(seed)
    steps = _episodes_per_step(episodes, members, x.shape[1], ways, shots + queries)
    rows = (_episode_rows(members, rng, count, ways, shots, queries) for count in steps)
    accuracies = np.concatenate([_accuracies(x[chunk], shots, metric) for chunk in rows])
    interval = 1.96 * accuracies.std(ddof=1) / np.sqrt(episodes)
    return {"accuracy": float(accuracies.mean()), "interval": float(interval)}


def _members(labels, ways, shots, queries):
    """Rows of each class: `(classes, size of the largest class)` int64, -1 after the last."""
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    require(
        len(classes) >= ways, f"ways={ways} and labels of {len(classes)} classes", "a class for each way. Lower ways"
    )
    short = np.flatnonzero(counts < shots + queries)
    if len(short):
        worst = short[counts[short].argmin()]
        raise ValueError(
            f"Received labels with {len(short)} of {len(classes)} classes of fewer than shots + queries = "
            f"{shots} + {queries} examples (class {classes[worst]} has {counts[worst]}), expected that number in each. "
            "Lower one of the two, or leave these classes out."
        )
    members = np.full((len(classes), counts.max()), -1)
    members[np.arange(counts.max()) < counts[:, None]] = np.argsort(codes, kind="stable")
    return members


def _episodes_per_step(episodes, members, dim, ways, examples):
    """Numbers of episodes that are measured at the same time; their sum is `episodes`."""
    classes, largest = members.shape
    step = max(1, _NUMBERS // (classes + ways * (largest + examples * dim)))
    return [min(step, episodes - start) for start in range(0, episodes, step)]


def _episode_rows(members, rng, count, ways, shots, queries):
    """Rows of random episodes, `(count, ways, shots + queries)`, the support of each class first."""
    classes = rng.random((count, len(members))).argpartition(ways - 1, axis=1)[:, :ways]
    rows = members[classes]
    keys = np.where(rows >= 0, rng.random(rows.shape), 2)
    drawn = keys.argpartition([shots - 1, shots + queries - 1], axis=2)[..., : shots + queries]
    return np.take_along_axis(rows, drawn, axis=2)


def _accuracies(episodes, shots, metric):
    """Accuracy of each episode: `(count,)`, from embeddings `(count, ways, shots + queries, dim)`."""
    count, ways, _, dim = episodes.shape
    prototypes = episodes[:, :, :shots].mean(axis=2, dtype=np.float64)
    queries = episodes[:, :, shots:].astype(np.float64).reshape(count, -1, dim)
    squares = np.square(prototypes).sum(axis=2)[:, None]
    scores = queries @ prototypes.transpose(0, 2, 1)
    if metric == "cosine":
        scores /= np.sqrt(np.where(squares > 0, squares, 1))
    else:
        scores -= squares / 2
    labels = np.repeat(np.arange(ways), queries.shape[1] // ways)
    return (scores.argmax(axis=2) == labels).mean(axis=1)
