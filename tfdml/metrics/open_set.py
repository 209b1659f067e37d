"""Open-set identification: who is it, if it is anybody in the gallery?"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, require, require_metric
from tfdml.metrics.statistics.intervals import class_interval
from tfdml.metrics.verification import as_rates
from tfdml.search.exact import Exact

_ROUNDING = 1e-9  # Of a number of queries.


def open_set(
    embeddings: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    gallery: npt.ArrayLike,
    gallery_labels: npt.ArrayLike,
    far: float | Sequence[float] = 0.01,
    metric: str = "cosine",
) -> dict[str, float]:
    """Identification in a gallery that does not have every class: a query gets a class, or "unknown".

    The answer to a query is the class of its nearest item if it is near enough, and "unknown" otherwise. far is the
    false alarm rate, the fraction of queries of unknown classes that get a class: as many as it allows get an answer.

    * dir@far=x: detection and identification rate, the fraction of queries of known classes that get their class;
    * dir@far=x low, dir@far=x high: its 95% interval over the known classes, for these false alarms;
    * rank_1: the same without a threshold;
    * known, unknown: the numbers of queries of either kind.

    Example: the gallery does not have class 2, and its queries are 3 and 1 from the nearest item. Of the others, one is
    0.5 from an item of its class and one is 2 from it.

        >>> gallery = {"gallery": [[0.0], [10.0]], "gallery_labels": [0, 1], "metric": "euclidean"}
        >>> numbers = tfdml.metrics.open_set([[3.0], [9.0], [0.5], [8.0]], [2, 2, 0, 1], **gallery, far=(0.1, 0.5))
        >>> numbers["dir@far=0.1"], numbers["dir@far=0.5"], numbers["rank_1"]
        (0.5, 1.0, 1.0)

    Args:
        embeddings, labels: the queries, `(queries, dim)` and `(queries,)` integer class ids.
        gallery, gallery_labels: the items, likewise. Classes that it does not have are unknown.
        far: false alarm rates, one or several, between 0 and 1.
        metric: "cosine", "dot" or "euclidean".

    Returns:
        dict of floats. Bounds are NaN with too few known classes for an interval, see `class_interval`.

    Raises:
        ValueError: no query of a known, or of an unknown class.

    Source: Phillips, Grother, Micheals, Evaluation Methods in Face Recognition, Handbook of Face Recognition 2011.
    """
    require_metric(metric)
    queries, items = as_vectors(embeddings, "embeddings"), as_vectors(gallery, "gallery")
    labels = as_ids(labels, "labels", len(queries))
    item_labels = as_ids(gallery_labels, "gallery_labels", len(items))
    nearest, scores = Exact(items, metric=metric).search(queries, 1)
    nearness = scores[:, 0] if metric != "euclidean" else -scores[:, 0]
    is_known = np.isin(labels, item_labels)
    is_right = (item_labels[nearest[:, 0]] == labels)[is_known]
    num_known, num_unknown = int(is_known.sum()), int((~is_known).sum())
    received = f"{num_known} queries of classes of the gallery and {num_unknown} of others"
    require(min(num_known, num_unknown) > 0, received, "some of both")
    alarms = np.sort(nearness[~is_known])[::-1]
    rates: dict[str, float] = {}
    for rate in as_rates(far):
        first_too_many = alarms[int(rate * len(alarms) + _ROUNDING)]
        answered = is_right & (nearness[is_known] > first_too_many)
        low, high = class_interval(answered, labels[is_known])
        named = {"": float(answered.mean()), " low": low, " high": high}
        rates |= {f"dir@far={rate:g}{end}": value for end, value in named.items()}
    return rates | {"rank_1": float(is_right.mean()), "known": float(num_known), "unknown": float(num_unknown)}
