"""Parts of a labeled set: validation parts, and class names that parts share."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from tfdml._core.checks import require, require_seed


def split(
    part: Any, validation: float, *, by: Literal["class", "image", "group"], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the training and of the validation part, see `LabeledSet.split`.

    Returns:
        Two int64 arrays, each in the order of the set.

    Raises:
        ValueError: a share outside (0, 1), an unknown `by`, or a part that would have no example.
    """
    require(0 < validation < 1, f"validation={validation!r}", "a share between 0 and 1, both excluded")
    require(by in _DRAWS, f"by={by!r}", f"one of {', '.join(map(repr, _DRAWS))}")
    require_seed(seed)
    chosen = _DRAWS[by](part, validation, seed)
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _classes(part, validation, seed):
    numbers = np.unique(part.labels)
    names = [part.class_names[number] for number in numbers]
    drawn = _drawn(names, validation, seed, "classes with images")
    return np.isin(part.labels, numbers[drawn])


def _groups(part, validation, seed):
    require(part.groups is not None, "by='group' and a set without groups", "groups: one id per example")
    ids = np.unique(part.groups)
    drawn = _drawn(ids.tolist(), validation, seed, "groups")
    return np.isin(part.groups, ids[drawn])


def _drawn(names, validation, seed, what):
    """Which names are drawn, `(names,)` bool. A name that is added or removed changes at most one other."""
    require(len(names) > 1, f"a set with {len(names)} {what}", "at least 2, one for each part")
    number = min(max(round(validation * len(names)), 1), len(names) - 1)
    return np.argsort(np.argsort([_hash(seed, name) for name in names])) < number


def _images(part, validation, seed):
    chosen = np.zeros(len(part), bool)
    order = np.argsort(part.labels, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(part.labels[order])) + 1):
        if len(rows):
            random = np.random.default_rng(_hash(seed, part.class_names[part.labels[rows[0]]]))
            number = min(int(validation * len(rows) + random.random()), len(rows) - 1)
            chosen[random.permutation(rows)[:number]] = True
    advice = "more images per class, or a larger share: the last image of a class stays in the training part"
    require(bool(chosen.any()), f"validation={validation} of a set with {len(part)} images, which gives none", advice)
    return chosen


_DRAWS: dict[str, Callable[..., np.ndarray]] = {"class": _classes, "image": _images, "group": _groups}


def _hash(seed, name):
    """A whole number below 2**64."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big")


def require_disjoint(*sets: Any) -> None:
    """Raise an error if two sets have a class in common, compared by name.

    Call it on the parts of a class-disjoint protocol that you split yourself. Query and gallery share their classes:
    check each of them with the training part.

        tfdml.datasets.require_disjoint(train, test)

    Args:
        sets: labeled sets. Only classes with examples count.

    Raises:
        ValueError: a class with examples in two sets.
    """
    names = [{part.class_names[number] for number in np.unique(part.labels)} for part in sets]
    for (i, first), (j, second) in combinations(enumerate(names, 1), 2):
        common = sorted(first & second)
        require(
            not common,
            f"{len(common)} classes with examples in both set {i} and set {j} ({_first_few(common)})",
            "sets without a common class. Split by class, for example with set.split(by='class')",
        )


def _first_few(names):
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def as_split_names(splits: Sequence[str]) -> tuple[str, ...]:
    """Names of splits as a tuple; raises a ValueError unless they are at least one, all different."""
    names = () if isinstance(splits, str) else tuple(splits)
    require(
        bool(names) and len(set(names)) == len(names) and all(isinstance(name, str) for name in names),
        f"splits={splits!r}",
        "different names, such as ('train', 'test')",
    )
    return names


def with_shared_names(parts: Sequence[Any], key: Callable[[str], Any] | None = None) -> tuple[Any, ...]:
    """Parts with the same labels for the same classes.

    Parts that have a class in common, directly or through other parts, get the names of all their classes. A part that
    has no class in common with another keeps its labels.

    Args:
        parts: labeled sets.
        key: the names are sorted by this function; None for the order of text.
    """
    return tuple(_with_names(part, sorted(_connected(part, parts), key=key)) for part in parts)


def _connected(part, parts):
    """Names of the classes of all parts that are connected to a part by common classes."""
    names = set()
    found = set(part.class_names)
    while found != names:
        names = found
        found = names.union(*(other.class_names for other in parts if not names.isdisjoint(other.class_names)))
    return names


def _with_names(part, names):
    number_of = {name: number for number, name in enumerate(names)}
    numbers = np.array([number_of[name] for name in part.class_names], np.int64)
    return replace(part, labels=numbers[part.labels], class_names=tuple(names))
