"""The first batches of a sampler."""


def take(sampler, labels, steps):
    """`(steps, batch)` rows of the first batches."""
    return sampler.index_batches(labels)[:steps]
