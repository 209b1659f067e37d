"""Class-disjoint folds of a training set."""

from typing import Any

import numpy as np

from tfdml._core.checks import is_labeled_set, require, require_seed, require_whole


def class_folds(data: Any, folds: int = 4, *, seed: int = 0) -> tuple[tuple[Any, Any], ...]:
    """Training and validation parts of each fold: every class is in the validation part of one fold.

    The classes are shuffled and dealt to the folds, whose numbers of classes differ by at most 1. Examples of one class
    are never in both parts of a fold, so that validation is retrieval of unseen classes, as the test is.

    Args:
        data: labeled set of `tfdml.datasets`.
        folds: number of folds, 2 or more.
        seed: seed of the shuffle; it depends on the class names only.

    Returns:
        A tuple of `(training, validation)`, one per fold, each a labeled set with dense labels and no protocol.

    Raises:
        ValueError: data of another form, fewer than 2 folds, fewer than two classes per fold, or a fold in which no
            class has two examples.
    """
    require(is_labeled_set(data), f"data of type {type(data).__name__}", "a labeled set of tfdml.datasets")
    require_whole("folds", folds, 2)
    require_seed(seed)
    names = sorted(data.class_names[label] for label in np.unique(data.labels))
    require(len(names) >= 2 * folds, f"{len(names)} classes and folds={folds}", "at least two classes per fold")
    dealt = [names[i] for i in np.random.default_rng(seed % 2**64).permutation(len(names))]
    parts = tuple(_parts(data, set(dealt[fold::folds]), dealt) for fold in range(folds))
    for fold, (_, validation) in enumerate(parts):
        positives = np.bincount(validation.labels).max() > 1
        require(positives, f"fold {fold} without a class of two examples", "positive pairs. Use fewer folds")
    return parts


def _parts(data, held_out, names):
    return data.select_classes([name for name in names if name not in held_out]), data.select_classes(list(held_out))
