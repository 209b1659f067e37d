"""Summaries of labeled sets."""

import numpy as np

from tfdml.datasets import LabeledSet

LABELS = np.repeat(np.arange(7), [1, 1, 2, 3, 1000, 0, 6])


def test_a_set_is_described_by_counts_and_class_sizes():
    part = LabeledSet(images=LABELS, labels=LABELS, class_names=tuple("abcdefg"), groups=LABELS % 3)
    found = part.describe()
    assert (found.examples, found.classes, found.single, found.groups, found.boxes) == (1013, 6, 2, 3, False)
    assert found.class_sizes.tolist() == [1, 1, 2, 3, 1000, 0, 6]


def test_a_description_prints_as_a_table_and_a_histogram():
    skipped = (("a.txt", "suffix '.txt'"), (".b", "hidden"), ("c.txt", "suffix '.txt'"))
    boxes = np.zeros((len(LABELS), 4))
    part = LabeledSet(
        images=LABELS, labels=LABELS, class_names=tuple("abcdefg"), skipped=skipped, boxes=boxes, protocol="letters/v1"
    )
    assert (
        str(part.describe())
        == repr(part.describe())
        == """\
examples                  1,013
classes                   6
examples per class        1 to 1,000, median 2.5
classes with one example  2
classes without examples  1
boxes                     one per example
protocol                  letters/v1
skipped, hidden           1
skipped, suffix '.txt'    2

classes by number of examples
           1  2  ########################################
      2 to 3  2  ########################################
      4 to 7  1  ####################
     8 to 15  0
    16 to 31  0
    32 to 63  0
   64 to 127  0
  128 to 255  0
  256 to 511  0
512 to 1,023  1  ####################"""
    )


def test_a_set_without_examples_is_described():
    empty = LabeledSet(images=LABELS[:0], labels=LABELS[:0], class_names=("a", "b"))
    assert (
        str(empty.describe()) == "examples                  0\nclasses                   0\nclasses without examples  2"
    )
