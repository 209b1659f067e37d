"""The study of boxes: its composites, and what its committed rows show."""

import numpy as np
import tensorflow as tf

from studies import boxes, runner


def test_a_composite_has_both_examples_and_the_box_of_the_left_one():
    left, right = (np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8) for seed in (1, 2))
    for seed in range(5):
        file, (x, y, end, below) = boxes.composite(np.random.default_rng(seed), left, right)
        canvas = tf.io.decode_png(file).numpy()
        assert canvas.shape == (16, 16, 3)
        np.testing.assert_array_equal(canvas[y:below, x:end], left)
        assert any(np.array_equal(canvas[top : top + 8, 8:], right) for top in range(9))


def test_the_box_helps():
    rows = runner.read_rows(boxes.ROWS)
    for name in boxes.SETS:
        for seed in boxes.SEEDS:
            whole, box = (runner.where(rows, set=name, seed=seed, query=kind)[0] for kind in ("whole image", "box"))
            assert box["low"] > whole["high"]
