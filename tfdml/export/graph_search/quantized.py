"""Vectors in float32, bfloat16 or int8."""

from typing import Any

import numpy as np

from tfdml._core.optional import has_tensorflow, tf

# Vectors converted at the same time: they stay in the cache until they are multiplied.
_BLOCK = 4096
DTYPES = ("float32", "bfloat16", "int8")


class StoredVectors(tf.Module if has_tensorflow() else object):  # type: ignore[misc]
    """Vectors in a storage type: codes `(n, dim)`, and for int8 the steps `(n,)` of the vectors.

    `block` is the number of vectors to convert to float32 at the same time.
    """

    def __init__(self, vectors: np.ndarray, dtype: str):
        super().__init__()
        self.steps, self.block = None, _BLOCK
        if dtype == "int8":
            steps = np.abs(vectors).max(axis=1) / np.float32(127)
            steps = np.where(steps > 0, steps, np.float32(1))
            vectors = np.rint(vectors / steps[:, None])
            self.steps = tf.Variable(steps, trainable=False)
        self.codes = tf.Variable(tf.cast(vectors, dtype), trainable=False)

    def take(self, rows: Any) -> Any:
        """`(..., dim)` float32 vectors of these rows."""
        # A gather from the variable itself would make every later read of it a copy.
        vectors = tf.cast(tf.gather(tf.convert_to_tensor(self.codes), rows), tf.float32)
        return vectors if self.steps is None else vectors * tf.gather(tf.convert_to_tensor(self.steps), rows)[..., None]

    def products(self, queries: Any) -> Any:
        """`(batch, n)` products of queries with all vectors."""
        if self.codes.dtype == tf.float32:
            return tf.matmul(queries, self.codes, transpose_b=True)
        codes = tf.convert_to_tensor(self.codes)
        sizes = [min(self.block, codes.shape[0] - start) for start in range(0, codes.shape[0], self.block)]
        blocks = (tf.cast(block, tf.float32) for block in tf.split(codes, sizes))
        products = tf.concat([tf.matmul(queries, block, transpose_b=True) for block in blocks], axis=1)
        return products if self.steps is None else products * self.steps
