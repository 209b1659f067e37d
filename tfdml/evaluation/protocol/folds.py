"""Folds of the training classes, and training with derived seeds per run and fold."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdml._core.checks import is_labeled_set, labeled_part, require, require_seed, require_whole
from tfdml.typing import Data

if TYPE_CHECKING:
    import keras

Train = Callable[[dict[str, Any], Any, int], "keras.Model"]  # of settings, labeled set and seed


def class_folds(data: Data, folds: int = 4, *, seed: int = 0) -> tuple[tuple[Data, Data], ...]:
    """Training and validation sets of each fold: every class is in the validation set of one fold.

    Folds have random classes; the numbers of classes differ by at most 1. No class is in both sets of a fold, so
    validation retrieves unseen classes, like the test.

    Example: each of four classes is held out once.

        >>> x, labels = np.zeros((8, 2)), np.repeat(range(4), 2)
        >>> data = tfdml.datasets.LabeledSet(images=x, labels=labels, class_names=("ant", "bee", "cat", "dog"))
        >>> folds = tfdml.evaluation.class_folds(data, 2)
        >>> [validation.class_names for _, validation in folds]
        [('bee', 'cat'), ('ant', 'dog')]

    Args:
        data: labeled set of `tfdml.datasets`.
        folds: number of folds, 2 or more.
        seed: seed of the assignment; it depends on the class names only.

    Returns:
        A tuple of `(training, validation)`, one per fold, each a labeled set with dense labels and no protocol.
    """
    require(is_labeled_set(data), f"data of type {type(data).__name__}", "a labeled set of tfdml.datasets")
    require_whole("folds", folds, 2)
    require_seed(seed)
    data = labeled_part(data, "folds")
    names = sorted(data.class_names[label] for label in np.unique(data.labels))
    require(len(names) >= 2 * folds, f"{len(names)} classes and folds={folds}", "at least two classes per fold")
    shuffled = [names[i] for i in np.random.default_rng(seed % 2**64).permutation(len(names))]
    splits = tuple(_split(data, set(shuffled[fold::folds]), shuffled) for fold in range(folds))
    for fold, (_, validation) in enumerate(splits):
        has_positives = np.bincount(validation.labels).max() > 1
        require(has_positives, f"fold {fold} without a class of two examples", "positive pairs. Use fewer folds")
    return splits


def _split(data, held_out, names):
    return data.select_classes([name for name in names if name not in held_out]), data.select_classes(list(held_out))


def derived_seed(*numbers: int) -> int:
    """A seed below 2**32 from whole numbers, such as seed, run and fold; run 0 is the search."""
    return int(np.random.SeedSequence([number % 2**64 for number in numbers]).generate_state(1)[0])


def train_seeded(train: Train, settings: Mapping[str, Any], data: Data, seed: int) -> "keras.Model":
    """Train a model by `train(settings, data, seed)`, with Keras, NumPy and Python seeded."""
    import keras

    keras.utils.set_random_seed(seed)
    return train(dict(settings), data, seed)
