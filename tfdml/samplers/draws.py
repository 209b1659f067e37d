"""Random draws, pure functions of (seed, step), in TensorFlow; the draws of a step do not depend on its block."""

import tensorflow as tf

from tfdml.samplers.class_table import ClassTable


def random_bits(seed: int, steps: tf.Tensor, count: int) -> tf.Tensor:
    """Independent 64-bit integers, uniform over int64, as a pure function of (seed, step): `(block, count)`.

    Philox takes (seed, step) as its key and counter by a one-to-one map, so no two steps or seeds share an integer.
    Steps of batches are not negative; a sampler may use negative ones for other draws.
    """

    def bits(step):
        return tf.random.stateless_uniform(
            (count,), [tf.constant(seed, tf.int64), step], minval=None, maxval=None, dtype=tf.int64, alg="philox"
        )

    return tf.map_fn(bits, steps, fn_output_signature=tf.int64)


_AUGMENTATION = 0x61_7567_6D65_6E74  # "augment": separates its draws from the draws of rows at the same steps.


def augmentation_seeds(seed: int, step: tf.Tensor, count: int) -> tf.Tensor:
    """Seeds of the rows of a batch, int64 `(count, 2)`, as a pure function of (seed, step)."""
    key = [tf.constant(seed ^ _AUGMENTATION, tf.int64), step]
    return tf.random.stateless_uniform((count, 2), key, minval=None, maxval=None, dtype=tf.int64, alg="philox")


def sample_without_replacement(bits: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
    """k numbers of range(total) without replacement, `(..., k)` like the bits; all ordered samples are equally likely.

    Integer i selects one of the `total - i` remaining numbers: bits modulo (total - i). It favors no number by more
    than a factor of 1 + total / 2^64. Ranks among the remaining numbers (a Lehmer code) become the numbers by stepping
    over each earlier sample, latest first. If k exceeds total, the sample of all numbers repeats in the same order, so
    the counts of two numbers differ by at most one.
    """
    k = bits.shape[-1]
    sample = tf.range(k, dtype=tf.int64)
    ranks = tf.math.floormod(bits, tf.maximum(total - sample, 1))

    def step_over(i, ranks):
        is_over = (sample > i) & (ranks >= ranks[..., i, tf.newaxis])
        return i - 1, ranks + tf.cast(is_over, tf.int64)

    _, numbers = tf.while_loop(lambda i, _: i >= 0, step_over, (tf.constant(k - 2, tf.int64), ranks))
    repeated = tf.broadcast_to(tf.math.floormod(sample, total), tf.shape(numbers))
    return tf.gather(numbers, repeated, batch_dims=bits.shape.rank - 1, axis=-1)


def first_distinct(numbers: tf.Tensor, count: int) -> tf.Tensor:
    """The first `count` different numbers of each row `(block, n)`, in their order; a row with fewer repeats some."""
    position = tf.range(numbers.shape[1])
    is_earlier = position[:, None] > position
    is_repeated = tf.reduce_any((numbers[:, :, None] == numbers[:, None]) & is_earlier, axis=-1)
    order = tf.math.top_k(-tf.where(is_repeated, position + numbers.shape[1], position), count).indices
    return tf.gather(numbers, order, batch_dims=1)


def sample_rows(table: ClassTable, classes: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """k rows of each class without replacement, `(..., k)` like `bits`; classes with fewer rows repeat them evenly."""
    offsets = sample_without_replacement(bits, tf.gather(table.counts, classes)[..., None])
    return tf.gather(table.rows, tf.gather(table.starts, classes)[..., None] + offsets)


def sample_categorical(bits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """One index per integer `(block,)`, with probability proportional to its weight: float64, with a positive sum."""
    cumulative = tf.cumsum(weights)
    point = (tf.cast(bits, tf.float64) * 2.0**-64 + 0.5) * cumulative[-1]
    return tf.minimum(tf.searchsorted(cumulative, point, side="right"), cumulative.shape[0] - 1)


def shuffle(bits: tf.Tensor) -> tf.Tensor:
    """A random permutation of range(n) for each row of bits `(..., n)`: their order; a tie has p <= n^2 / 2^65."""
    return tf.argsort(bits, stable=True)
