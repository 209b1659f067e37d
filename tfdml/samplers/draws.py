"""Random draws that depend on nothing but (seed, step).

They are TensorFlow operations over a whole block of steps at a time; what a step draws does not depend on the block it
is drawn in.
"""

import tensorflow as tf

from tfdml.samplers.class_table import ClassTable


def random_words(seed: int, steps: tf.Tensor, count: int) -> tf.Tensor:
    """Independent 64-bit words, uniform over all of int64, as a pure function of (seed, step).

    Philox takes (seed, step) as its key and counter by a one-to-one map, so no two steps or seeds share a word.

    Args:
        seed: any int64.
        steps: `(block,)` int64. Steps of batches are not negative; a sampler may use negative ones for other draws.
        count: words per step.

    Returns:
        `(block, count)` int64. Row i depends on `seed`, `steps[i]` and `count` only.
    """

    def words(step):
        return tf.random.stateless_uniform(
            (count,), [tf.constant(seed, tf.int64), step], minval=None, maxval=None, dtype=tf.int64, alg="philox"
        )

    return tf.map_fn(words, steps, fn_output_signature=tf.int64)


def choose(words: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
    """k numbers of range(total) without replacement, every ordered choice as likely as any other.

    The i-th word picks among the `total - i` numbers that remain: word modulo (total - i), which favours no number by
    more than a factor of 1 + total / 2^64. Counting places among remaining numbers turns into the numbers themselves
    (a Lehmer code) by stepping over each earlier choice, latest first.

    Args:
        words: `(..., k)` from `random_words`.
        total: int64, broadcast against `(..., k)`, at least 1.

    Returns:
        `(..., k)` int64. Where k exceeds total, the choice of all numbers is followed by itself again, in the same
        order: no number comes more than once more often than another, and chance says which ones do.
    """
    k = words.shape[-1]
    place = tf.range(k, dtype=tf.int64)
    picks = tf.math.floormod(words, tf.maximum(total - place, 1))

    def step_over(i, picks):
        over = (place > i) & (picks >= picks[..., i, tf.newaxis])
        return i - 1, picks + tf.cast(over, tf.int64)

    _, numbers = tf.while_loop(lambda i, _: i >= 0, step_over, (tf.constant(k - 2, tf.int64), picks))
    again = tf.broadcast_to(tf.math.floormod(place, total), tf.shape(numbers))
    return tf.gather(numbers, again, batch_dims=words.shape.rank - 1, axis=-1)


def choose_rows(table: ClassTable, classes: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Rows of each class without replacement; where a class has fewer than k, evenly repeated as in `choose`.

    Args:
        table: `ClassTable`.
        classes: `(...)` int64 places in the table.
        words: `(..., k)` from `random_words`.

    Returns:
        `(..., k)` int64 row numbers.
    """
    places = choose(words, tf.gather(table.counts, classes)[..., None])
    return tf.gather(table.rows, tf.gather(table.starts, classes)[..., None] + places)


def pick(words: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """One place a word, with probability proportional to its weight.

    Args:
        words: `(block,)` from `random_words`.
        weights: `(places,)` float64, not negative, with a positive sum.

    Returns:
        `(block,)` int32.
    """
    up_to = tf.cumsum(weights)
    point = (tf.cast(words, tf.float64) * 2.0**-64 + 0.5) * up_to[-1]
    return tf.minimum(tf.searchsorted(up_to, point, side="right"), up_to.shape[0] - 1)


def shuffle(words: tf.Tensor) -> tf.Tensor:
    """A random order of range(n) for each row of words `(..., n)`: the order of the words themselves.

    Every order is equally likely but for ties of 64-bit words, which come with probability n^2 / 2^65 at most.
    """
    return tf.argsort(words, stable=True)
