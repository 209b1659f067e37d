"""Batches that are divided over the replicas of `tf.distribute`."""

from typing import Any

import keras


def gathered(rows: Any) -> Any:
    """The rows of all replicas, with gradients to each, for a tensor or a structure of tensors and None.

    The same rows on one device, on other backends, and outside of a replica. On JAX, arrays that `keras.distribution`
    divides are whole already.
    """
    if keras.backend.backend() != "tensorflow":
        return rows
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return rows

    def from_all(x):
        return None if x is None else tf.ensure_shape(context.all_gather(x, axis=0), [None, *x.shape[1:]])

    return keras.tree.map_structure(from_all, rows)
