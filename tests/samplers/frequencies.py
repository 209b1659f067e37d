"""How far observed pairs are from the probabilities that a sampler promises."""

import numpy as np


def take(sampler, labels, steps):
    """`(steps, batch)` rows of the first batches."""
    return next(iter(sampler.index_batches(labels).batch(steps))).numpy()


def largest_z(rows, labels, q):
    """The largest deviation, in standard errors, of what all batches hold of a pair of examples or of classes.

    Args:
        rows: `(batches, batch)` row numbers, of independent batches.
        labels: `(examples,)` class ids from 0 on.
        q: `(examples, examples)`, the probability of each ordered pair of examples.
    """
    batches, batch = rows.shape
    times = np.zeros((batches, len(labels)))
    np.add.at(times, (np.arange(batches)[:, None], rows), 1)
    of_class = np.eye(labels.max() + 1)[labels]
    held = times @ of_class
    pairs = held[:, :, None] * held[:, None] - np.eye(held.shape[1]) * (times**2 @ of_class)[:, None]
    expected = batch * (batch - 1) * q
    examples = _z(times.T @ times / batches, (times**2).T @ times**2 / batches, expected, batches)
    classes = _z(pairs.mean(axis=0), (pairs**2).mean(axis=0), of_class.T @ expected @ of_class, batches)
    return max(examples[~np.eye(len(labels), dtype=bool)].max(), classes.max())


def _z(mean, square, expected, batches):
    error = np.sqrt(np.maximum(square - mean**2, 0) / batches)
    return np.abs(mean - expected) / np.maximum(error, 1e-9)
