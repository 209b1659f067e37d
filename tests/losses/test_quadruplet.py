"""Quadruplets: weights of their pairs, and large classes."""

import importlib

import numpy as np
import pytest

from tests.backend import BACKEND, fast, numbers
from tests.losses.rows import UNEVEN, batch
from tests.losses.test_sums_over_positives import weighted_pairs
from tfdml import losses, pairs

pytestmark = pytest.mark.backends


@fast
def with_triplets(labels, x):
    """The quadruplet loss, and its first term alone."""
    made = pairs.all_pairs(labels, x)
    return losses.functional.quadruplet(made), losses.functional.triplet(made, margin=1.0)


quadruplets_module = importlib.import_module("tfdml.losses.triplets.quadruplet")


def test_a_quadruplet_has_the_product_of_the_weights_of_its_pairs():
    labels, x = batch(UNEVEN["three classes"])
    made = weighted_pairs(labels, x)
    positive, negative = numbers(made.positive), numbers(made.negative)
    d = ((x.astype("float64")[:, None] - x) ** 2).sum(axis=2)
    total = number = 0
    for a, p in np.argwhere(positive):
        outside = [row for row in range(8) if row != a and not positive[a, row]]
        for n, m in np.argwhere(negative):
            if n in outside and m in outside:
                total += positive[a, p] * negative[n, m] * max(0, d[a, p] - d[n, m] + 0.5)
                number += 1
    quadruplets = numbers(losses.functional.quadruplet(made)) - numbers(losses.functional.triplet(made, margin=1.0))
    np.testing.assert_allclose(quadruplets, np.full(8, total / number), rtol=1e-4)


def test_quadruplets_of_large_classes_are_summed_one_positive_at_a_time(monkeypatch):
    calls, sum_of_hinges = [], quadruplets_module._sum_of_hinges
    monkeypatch.setattr(quadruplets_module, "_sum_of_hinges", lambda *parts: calls.append(1) or sum_of_hinges(*parts))
    labels, x = batch(np.repeat(np.arange(3), 12))
    d = ((x.astype("float64")[:, None] - x) ** 2).sum(axis=2)
    apart, total, number = labels[:, None] != labels, 0.0, 0
    for a, p in np.argwhere(~apart & ~np.eye(36, dtype=bool)):
        others = d[apart & apart[a] & apart[a][:, None]]
        total, number = total + np.maximum(0, d[a, p] - others + 0.5).sum(), number + len(others)
    made = pairs.all_pairs(labels, x)
    quadruplets = numbers(losses.functional.quadruplet(made)) - numbers(losses.functional.triplet(made, margin=1.0))
    np.testing.assert_allclose(quadruplets, np.full(36, total / number), rtol=1e-4)
    assert len(calls) == (1 if BACKEND == "jax" else 11)  # JAX traces a loop once


@pytest.mark.parametrize("classes", [1, 2])
def test_one_or_two_large_classes_have_no_quadruplets(classes):
    labels, x = batch(np.repeat(np.arange(classes), 24 // classes))
    quadruplets, triplets = with_triplets(labels, x)
    np.testing.assert_array_equal(numbers(quadruplets), numbers(triplets))
