"""Per-class values, looked up by class id."""

import numpy as np
import pytest
from keras import ops

from tests.backend import numbers, traced
from tfdml.pairs.class_values import look_up, positive_counts

pytestmark = pytest.mark.backends


def test_counts_come_from_an_array_or_a_dict_and_classes_without_examples_are_left_out():
    for counts in (np.array([3, 0, 4]), {2: 4, 0: 3, 1: 0}, {"2": 4.0, "0": 3.0}):
        ids, found = positive_counts(counts)
        assert ids.tolist() == [0, 2]
        assert found.tolist() == [3, 4]


def test_values_of_many_classes_with_large_ids_are_found():
    ids = np.sort(np.random.default_rng(0).choice(2**30, 1000, replace=False))
    values = np.arange(3000.0, dtype="float32").reshape(1000, 3)
    labels = np.random.default_rng(1).permutation(1000)[:40].reshape(40, 1)
    found = look_up(ids, values, ops.convert_to_tensor(ids[labels].astype("int32")), source="the test")
    np.testing.assert_array_equal(numbers(found), values[labels])


def test_an_unknown_class_is_an_error_and_nan_in_compiled_functions():
    ids, values = np.array([-5, 3]), np.array([1.0, 2.0], dtype="float32")
    labels = ops.convert_to_tensor(np.array([3, 4, -6, -5], dtype="int32"))
    with pytest.raises(ValueError, match="Received label 4, which the test does not cover; expected one of its 2 cla"):
        look_up(ids, values, labels, source="the test")
    found = numbers(traced(lambda labels: look_up(ids, values, labels, source="the test"))(labels))
    np.testing.assert_array_equal(found, [2.0, np.nan, np.nan, 1.0])


def test_labels_that_are_not_class_ids_are_refused():
    for labels in (np.eye(2, dtype="int32"), np.ones(2, dtype="float32")):
        with pytest.raises(
            ValueError, match="expected one integer class id per example: the test holds one value per class"
        ):
            look_up(np.array([1]), np.ones(1, dtype="float32"), ops.convert_to_tensor(labels), source="the test")
