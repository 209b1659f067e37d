"""Cross-validation that trains folds at the same time."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tfdml import evaluation
from tfdml.distributed.cluster import Resources, results
from tfdml.evaluation.protocol.cross_validation import measured_fold
from tfdml.typing import Data, FilePath


def cross_validate(
    train: Callable[[dict[str, Any], Any, int], Any],
    data: Data,
    space: Callable[[Any], dict[str, Any]],
    path: FilePath,
    *,
    resources: Resources | None = None,
    **options: Any,
) -> evaluation.CrossValidation:
    """`tfdml.evaluation.cross_validate` with the folds of a trial as tasks of Ray.

    The trials are the same as on one machine, whose search it can continue. At most `folds` tasks run at the same time.

    Example:

        >>> def train(settings, data, seed):
        ...     inputs = keras.Input((2,))
        ...     return keras.Model(inputs, keras.layers.UnitNormalization()(inputs))  # here it would be trained
        >>> x = np.array([[np.cos(k + d), np.sin(k + d)] for k in range(4) for d in (0.0, 0.1)])
        >>> data = tfdml.datasets.LabeledSet(images=x, labels=np.repeat(range(4), 2), class_names=tuple("abcd"))
        >>> search = tfdml.distributed.cross_validate(train, data, lambda trial: {}, "search", folds=2, trials=1)
        >>> search.best.value
        1.0

    Args:
        train, data, space, path: as in `tfdml.evaluation.cross_validate`. `train` and the set are sent to the nodes.
        resources: what a training takes of a node, as in `embed`.
        options: the other options of `tfdml.evaluation.cross_validate`.
    """
    measure = partial(_measured_folds, resources=resources)
    return evaluation.cross_validate(train, data, space, path, measure=measure, **options)


def _measured_folds(train, settings, folds, seeds, *, resources):
    tasks = list(zip(folds, seeds, strict=True))
    return results(_measured, tasks, label="folds", shared=(train, settings), resources=resources)


def _measured(shared, fold, seed):
    return measured_fold(*shared, fold, seed)
