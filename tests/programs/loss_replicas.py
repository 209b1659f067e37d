"""Losses on two replicas, printed for a test: in a process of its own, as devices are set before TensorFlow starts."""

import json

import numpy as np
import tensorflow as tf

LABELS = np.array([0, 0, 1, 1, 1, 2, 2, 0, 0, 0, 3, 3, 4, 4])
X = np.random.default_rng(0).standard_normal((14, 5)).astype("float32")


def main():
    """One line of JSON: the loss and its gradient on two replicas, and on their halves one after the other."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    from tests.losses.rows import DEFAULTS  # creates layers with variables, which starts TensorFlow

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    halves = [(LABELS[:7], X[:7]), (LABELS[7:], X[7:])]

    def halves_of(part):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(halves[context.replica_id_in_sync_group][part])
        )

    labels, x = halves_of(0), halves_of(1)
    found = {}
    for name, row in DEFAULTS.items():

        def value_and_slope(labels, x, loss=row.loss):
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = loss(labels, x)
            return value, tape.gradient(value, x)

        values, slopes = strategy.run(value_and_slope, (labels, x))
        alone = [value_and_slope(tf.constant(one), tf.constant(other)) for one, other in halves]
        found[name] = {
            "together": float(strategy.reduce("SUM", values, axis=None)),
            "mean of halves": float(np.mean([value.numpy() for value, _ in alone])),
            "slopes": np.concatenate([part.numpy() for part in strategy.experimental_local_results(slopes)]).tolist(),
            "half the slopes": np.concatenate([slope.numpy() / 2 for _, slope in alone]).tolist(),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
