"""Embeddings in shards for the tests of the room, and a model that is small to send."""

import numpy as np

from tfdml import distributed
from tfdml.datasets import LabeledSet

ROWS, DIM = 300, 8


class Projection:
    """A model: the first numbers of an example, some of them negative."""

    fingerprint = "a projection"

    def __init__(self, scale=1.0):
        self.scale = scale

    def predict_on_batch(self, examples):
        return self.scale * np.asarray(examples)[:, :DIM].astype(np.float32)


def vectors(rows=ROWS, seed=0):
    """Random vectors in pairs of near-duplicates: rows 2 i and 2 i + 1."""
    rng = np.random.default_rng(seed)
    pairs = np.repeat(rng.normal(size=(rows // 2, DIM)), 2, axis=0)
    return (pairs + 0.02 * rng.normal(size=(rows, DIM))).astype(np.float32)


def labeled_set(rows=ROWS):
    """The vectors as a set of ten classes."""
    labels = np.arange(rows) % 10
    return LabeledSet(images=vectors(rows), labels=labels, class_names=tuple(f"class {i}" for i in range(10)))


def shards(folder, rows=ROWS, shard_size=64, **options):
    """The vectors, embedded in shards."""
    return distributed.embed(Projection(), labeled_set(rows), folder, batch_size=16, shard_size=shard_size, **options)
