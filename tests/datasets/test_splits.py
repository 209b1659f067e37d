"""Validation parts, and class names that parts share."""

from dataclasses import replace

import numpy as np
import pytest

from tfdml.datasets import LabeledSet, require_disjoint
from tfdml.datasets.splits import with_shared_names


def set_of(counts, *, groups=None, order=None):
    """A set with some examples per class; each image is its number inside the class."""
    names = tuple(sorted(counts))
    labels = np.repeat(np.arange(len(names)), [counts[name] for name in names])
    images = np.concatenate([np.arange(counts[name]) for name in names])
    part = LabeledSet(images=images, labels=labels, class_names=names, groups=groups)
    return part if order is None else part.take(order)


def contents(part):
    """Names of classes with the numbers of their images."""
    return {(part.class_names[label], int(image)) for label, image in zip(part.labels, part.images, strict=True)}


ANIMALS = {"ant": 10, "bee": 5, "cat": 20, "dog": 1, "eel": 7}


def test_no_class_is_in_both_parts_and_nothing_is_lost():
    train, validation = set_of(ANIMALS).split(0.4)
    assert (len(train.class_names), len(validation.class_names)) == (3, 2)
    require_disjoint(train, validation)
    assert contents(train) | contents(validation) == contents(set_of(ANIMALS))
    for part in (train, validation):
        assert np.unique(part.labels).tolist() == list(range(len(part.class_names)))


def test_each_class_is_split_in_proportion_and_keeps_its_label():
    whole = set_of(ANIMALS)
    train, validation = whole.split(0.2, by="image")
    assert train.class_names == validation.class_names == whole.class_names
    assert not contents(train) & contents(validation)
    assert contents(train) | contents(validation) == contents(whole)
    for name, count in ANIMALS.items():
        kept = sum(each == name for each, _ in contents(validation))
        assert np.floor(0.2 * count) <= kept <= min(np.ceil(0.2 * count), count - 1)


def test_small_classes_give_their_share_on_average():
    whole = set_of({f"{number:04}": 2 for number in range(1000)})
    _, validation = whole.split(0.2, by="image")
    assert len(validation) == pytest.approx(400, abs=80)  # 5 standard deviations


def test_no_group_is_in_both_parts():
    groups = np.tile([3, 8, 9, 11], 5)
    train, validation = set_of({"ant": 8, "bee": 12}, groups=groups).split(0.25, by="group")
    assert (len(train), len(validation)) == (15, 5)
    assert not set(train.groups) & set(validation.groups)
    assert train.class_names == validation.class_names == ("ant", "bee")


@pytest.mark.parametrize("by", ["class", "image", "group"])
def test_a_split_depends_on_the_seed_and_not_on_the_order_of_classes(by):
    groups = np.arange(43) % 9
    whole = set_of(ANIMALS, groups=groups)
    order = np.argsort(-whole.labels, kind="stable")
    first, reordered = (part.split(0.4, by=by)[1] for part in (whole, whole.take(order)))
    assert contents(first) == contents(reordered)
    assert len({frozenset(contents(whole.split(0.4, by=by, seed=seed)[1])) for seed in range(8)}) > 1


def test_more_examples_of_one_class_do_not_change_the_split_of_others():
    first, second = (set_of(ANIMALS | {"bee": count}).split(0.4, by="image")[1] for count in (5, 50))
    assert {each for each in contents(first) if each[0] != "bee"} == {
        each for each in contents(second) if each[0] != "bee"
    }


def test_another_class_moves_at_most_one_class():
    first, second = (set(set_of(classes).split(0.4)[1].class_names) for classes in (ANIMALS, ANIMALS | {"fox": 3}))
    assert len(first - second) <= 1


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        (ANIMALS, {"validation": 0.0}, "validation=0.0, expected a share between 0 and 1"),
        (ANIMALS, {"validation": 1.0}, "validation=1.0, expected a share"),
        (ANIMALS, {"validation": float("nan")}, "validation=nan, expected a share"),
        (ANIMALS, {"by": "day"}, "by='day', expected one of 'class', 'image', 'group'"),
        (ANIMALS, {"by": "group"}, "by='group' and a set without groups"),
        (ANIMALS, {"seed": 0.5}, "seed=0.5, expected a whole number"),
        ({"ant": 10}, {}, "a set with 1 classes with images, expected at least 2"),
        ({"ant": 10, "bee": 0}, {}, "a set with 1 classes with images"),
        ({"ant": 1, "bee": 1}, {"by": "image"}, "with 2 images, which gives none, expected more images per class"),
        ({"ant": 0}, {"by": "image"}, "with 0 images, which gives none"),
    ],
)
def test_sets_that_cannot_be_split_are_refused(counts, options, message):
    with pytest.raises(ValueError, match=message):
        set_of(counts).split(**options)


def test_one_group_is_refused():
    with pytest.raises(ValueError, match="a set with 1 groups, expected at least 2"):
        set_of({"ant": 3}, groups=np.zeros(3, int)).split(by="group")


def test_a_class_with_examples_in_two_sets_is_named():
    train, query = set_of({"ant": 2, "bee": 1}), set_of({"bee": 0, "cat": 3})
    require_disjoint(train, query)
    gallery = set_of({"bee": 1, "cat": 1})
    with pytest.raises(ValueError, match=r"1 class with examples in both set 1 and set 3 \(bee\), expected"):
        require_disjoint(train, replace(query, class_names=("bee", "dog")), gallery)


def test_connected_parts_share_their_names_and_others_keep_their_own():
    parts = [set_of(dict.fromkeys(names, 2)) for names in ("ab", "yz", "cd", "bc")]
    shared = with_shared_names(parts)
    assert [part.class_names for part in shared] == [tuple("abcd"), tuple("yz"), tuple("abcd"), tuple("abcd")]
    assert [part.labels.tolist() for part in shared] == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [1, 1, 2, 2]]
    assert [contents(part) for part in shared] == [contents(part) for part in parts]


def test_a_class_in_another_spelling_is_a_common_class():
    first, second = (
        LabeledSet(images=np.zeros((1, 2)), labels=np.zeros(1, int), class_names=(name,))
        for name in ("\u00e9", "e\u0301")
    )
    with pytest.raises(ValueError, match="1 class with examples in both set 1 and set 2"):
        require_disjoint(first, second)
