"""Parts of a labeled set: validation parts, and class names that parts share."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from tfdml._core.checks import counted, require, require_seed
from tfdml.datasets.readers.text import class_name
from tfdml.typing import Data


def split(
    labeled_set: Any, validation: float, *, by: Literal["class", "image", "group"], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the training and of the validation part, in the order of the set, see `LabeledSet.split`."""
    require(0 < validation < 1, f"validation={validation!r}", "a share between 0 and 1, both excluded")
    require(by in _DRAWS, f"by={by!r}", f"one of {', '.join(map(repr, _DRAWS))}")
    require_seed(seed)
    is_validation = _DRAWS[by](labeled_set, validation, seed)
    return np.flatnonzero(~is_validation), np.flatnonzero(is_validation)


def _classes(labeled_set, validation, seed):
    numbers = np.unique(labeled_set.labels)
    names = [labeled_set.class_names[number] for number in numbers]
    drawn = _drawn(names, validation, seed, "classes with images")
    return np.isin(labeled_set.labels, numbers[drawn])


def _groups(labeled_set, validation, seed):
    require(labeled_set.groups is not None, "by='group' and a set without groups", "groups: one id per example")
    ids = np.unique(labeled_set.groups)
    drawn = _drawn(ids.tolist(), validation, seed, "groups")
    return np.isin(labeled_set.groups, ids[drawn])


def _drawn(names, validation, seed, what):
    """Which names are drawn, `(names,)` bool. An added or removed name changes at most one other."""
    require(len(names) > 1, f"a set with {len(names)} {what}", "at least 2, one for each part")
    number = min(max(round(validation * len(names)), 1), len(names) - 1)
    return np.argsort(np.argsort([_hash(seed, name) for name in names])) < number


def _images(labeled_set, validation, seed):
    is_validation = np.zeros(len(labeled_set), bool)
    order = np.argsort(labeled_set.labels, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(labeled_set.labels[order])) + 1):
        if len(rows):
            random = np.random.default_rng(_hash(seed, labeled_set.class_names[labeled_set.labels[rows[0]]]))
            number = min(int(validation * len(rows) + random.random()), len(rows) - 1)
            is_validation[random.permutation(rows)[:number]] = True
    received = f"validation={validation} of a set with {len(labeled_set)} images, which gives none"
    advice = "more images per class, or a larger share: the last image of a class stays in the training part"
    require(bool(is_validation.any()), received, advice)
    return is_validation


_DRAWS: dict[str, Callable[..., np.ndarray]] = {"class": _classes, "image": _images, "group": _groups}


def _hash(seed, name):
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big")


def require_disjoint(*sets: Data) -> None:
    """Raise an error if two sets have a class in common, compared by name: its spelling in Unicode does not count.

    Call it on the parts of a class-disjoint protocol that you split yourself. Query and gallery share their classes:
    check each of them with the training part.

    Example:

        >>> names = ("ant", "bee", "cat")
        >>> data = tfdml.datasets.LabeledSet(images=np.zeros((3, 8, 8, 1)), labels=np.arange(3), class_names=names)
        >>> train, test = data.select_classes(["ant", "bee"]), data.select_classes(["bee", "cat"])
        >>> tfdml.datasets.require_disjoint(train, test)
        Traceback (most recent call last):
            ...
        ValueError: Received 1 class with examples in both set 1 and set 2 (bee), expected sets without a common ...

    Args:
        sets: labeled sets. Only classes with examples count.
    """
    names = [{class_name(part.class_names[number]) for number in _used(part)} for part in sets]
    for (i, first), (j, second) in combinations(enumerate(names, 1), 2):
        common = sorted(first & second)
        listed = ", ".join([*common[:5], *["..."] * (len(common) > 5)])
        received = f"{counted(len(common), 'class')} with examples in both set {i} and set {j} ({listed})"
        expected = "sets without a common class. Split by class, for example with set.split(by='class')"
        require(not common, received, expected)


def as_split_names(splits: Sequence[str]) -> tuple[str, ...]:
    """Names of splits as a tuple; raises a ValueError unless they are at least one, all different."""
    names = () if isinstance(splits, str) else tuple(splits)
    is_valid = bool(names) and len(set(names)) == len(names) and all(isinstance(name, str) for name in names)
    require(is_valid, f"splits={splits!r}", "different names, such as ('train', 'test')")
    return names


def with_shared_names(sets: Sequence[Any], key: Callable[[str], Any] | None = None) -> tuple[Any, ...]:
    """Sets with the same labels for the same classes; sets connected by common classes get the names of all, sorted."""
    return tuple(_with_names(labeled_set, sorted(_connected(labeled_set, sets), key=key)) for labeled_set in sets)


def _connected(labeled_set, sets):
    """Names of the classes of all sets that common classes connect to a set."""
    names = set()
    names_now = set(labeled_set.class_names)
    while names_now != names:
        names = names_now
        names_now = names.union(*(other.class_names for other in sets if not names.isdisjoint(other.class_names)))
    return names


def _with_names(labeled_set, names):
    number_of = {name: number for number, name in enumerate(names)}
    numbers = np.array([number_of[name] for name in labeled_set.class_names], np.int64)
    return replace(labeled_set, labels=np.append(numbers, -1)[labeled_set.labels], class_names=tuple(names))


def _used(labeled_set):
    """The numbers of the classes that have examples."""
    return np.unique(labeled_set.labels[labeled_set.labels >= 0])


def with_used_names(labeled_set: Any) -> Any:
    """A set with the names of the classes that have examples; labels are dense again."""
    used = _used(labeled_set)
    numbers = np.full(len(labeled_set.class_names) + 1, -1)  # the last one is for examples without a label
    numbers[used] = np.arange(len(used))
    names = tuple(labeled_set.class_names[number] for number in used)
    return replace(labeled_set, labels=numbers[labeled_set.labels], class_names=names)


def without_labels(sets: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Sets whose examples of some classes have no label; these classes are no classes any more."""
    names = [class_name(name) for name in names]
    class_names = dict.fromkeys(name for labeled_set in sets for name in labeled_set.class_names)
    missing = ", ".join(repr(name) for name in names if name not in class_names)
    require(
        not missing, f"no_label={missing}, which no class is called", f"some of {', '.join(map(repr, class_names))}"
    )
    return [_without_labels(labeled_set, set(names)) if names else labeled_set for labeled_set in sets]


def _without_labels(labeled_set, names):
    numbers = [number for number, name in enumerate(labeled_set.class_names) if name in names]
    labels = np.where(np.isin(labeled_set.labels, numbers), -1, labeled_set.labels)
    return with_used_names(replace(labeled_set, labels=labels))
