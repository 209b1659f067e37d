"""The lifted structured loss against other references."""

import numpy as np
import pytest

from tests.backend import numbers
from tests.losses.rows import batch
from tfdml import losses, pairs

pytestmark = pytest.mark.backends


@pytest.mark.parametrize("hard", [False, True])
def test_lifted_pairs_meet_the_negatives_of_both_ends_among_other_references_too(hard):
    labels, x = batch([0, 1, 0, 0, 1, 1, 2, 0], seed=5)
    anchors, references = range(3), range(3, 8)
    d = np.linalg.norm(x.astype("float64")[:, None] - x, axis=2)
    together = max if hard else lambda nearness: np.log(np.exp(nearness).sum())
    costs = {
        (a, p): max(
            0,
            d[a, p]
            + together(
                [1 - d[a, n] for n in references if labels[n] != labels[a]]
                + [1 - d[n, p] for n in anchors if labels[n] != labels[p]]
            ),
        )
        ** 2
        / 2
        for a in anchors
        for p in references
        if labels[a] == labels[p]
    }
    expected = [3 / len(costs) * sum(cost for (row, _), cost in costs.items() if row == a) for a in anchors]
    against = pairs.pairs_with(labels[:3], x[:3], labels[3:], x[3:])
    np.testing.assert_allclose(numbers(losses.functional.lifted_structure(against, hard=hard)), expected, rtol=1e-5)
