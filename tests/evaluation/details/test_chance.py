"""Labels that have nothing to do with the images are told from right ones."""

import numpy as np
import pytest

from tfdml import datasets, evaluation
from tfdml.evaluation.details.chance import is_at_chance


@pytest.fixture(scope="module")
def patches():
    """Means of 8 x 8 pixels of eight photographs of each of 30 classes, which need no network, and their labels."""
    (data,) = datasets.photo_patches(splits=("validation",))
    rows = np.concatenate([np.flatnonzero(data.labels == label)[:8] for label in np.unique(data.labels)[:30]])
    means = data.images[rows].reshape(len(rows), 8, 8, 8, 8, 3).mean((2, 4)).reshape(len(rows), -1)
    return means - means.mean(0), np.repeat(np.arange(30), 8)


def test_right_labels_are_better_than_chance_and_shuffled_ones_are_not(patches):
    vectors, labels = patches
    assert not is_at_chance(evaluation.evaluate(vectors, labels))
    shuffled = [np.random.default_rng(seed).permutation(labels) for seed in range(10)]
    assert sum(is_at_chance(evaluation.evaluate(vectors, each)) for each in shuffled) >= 8  # 9.5 of 10 are expected


def test_a_gallery_counts_by_its_own_labels_and_few_queries_tell_nothing(patches):
    vectors, labels = patches
    is_query = np.arange(len(labels)) % 3 == 0
    for shown, expected in ((labels, False), (np.random.default_rng(0).permutation(labels), True)):
        gallery = {"gallery": shown[~is_query], "gallery_embeddings": vectors[~is_query]}
        measured = evaluation.evaluate(vectors[is_query], shown[is_query], **gallery)
        assert is_at_chance(measured, shown[~is_query]) is expected
    few = evaluation.evaluate(vectors[::60], np.array([0, 0, 1, 1]))
    assert not is_at_chance(few)
