"""Dense stereo: a disparity for each pixel of a pair of images, by a small network and by cross-correlation.

Claim: the network has 6.9% bad pixels (6.7 to 7.0 over five seeds), and normalized cross-correlation 7.9% at its best
window; the difference is below 0 by its interval over blocks with each seed. About 45 seconds of one core.

    python -m recipes.patches.dense_stereo            # the motorcycle pair, seed 0
    python -m recipes.patches.dense_stereo --quick    # smoke test

Data: the motorcycle pair of the Middlebury sets, 308,397 pixels whose disparity is measured and whose point the right
image shows. A pixel is bad if its disparity is off by more than 3 pixels. The network learns from simulated strips of
training photographs. Cross-correlation has its best window, which is chosen on the pair itself. Nothing is smoothed or
filled. `python -m studies.patches` repeats this with five seeds.
"""

import argparse
import json
import time
from pathlib import Path

import keras
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import tfdml
from recipes import patches

WINDOWS = (5, 7, 9, 11, 13, 15, 17, 21)  # of cross-correlation
STEPS = 300
TEMPERATURE = 0.1  # of the similarities along a row


def main():
    """Tell the story."""
    options, begin = arguments(), time.time()
    options.output.mkdir(parents=True, exist_ok=True)
    pair = patches.motorcycle_stereo()
    left, right = (image @ np.array([0.299, 0.587, 0.114]) for image in (pair.left, pair.right))
    windows = WINDOWS[2:3] if options.quick else WINDOWS
    maps = {f"window {window}": patches.match_windows(left, right, window=window) for window in windows}
    errors = {name: patches.dense_stereo_errors(pair, disparities) for name, disparities in maps.items()}
    best = min(errors, key=lambda name: errors[name].bad.mean())

    model, seconds = stereo_network(options.seed, 4 if options.quick else STEPS)
    network = patches.match_features(*(model.predict(x[None, ..., None], verbose=0)[0] for x in (left, right)))
    errors["network"] = patches.dense_stereo_errors(pair, network)
    draw(options.output / "stereo.png", pair, {f"Cross-correlation, {best}": maps[best], "Network": network})

    blocks = errors[best].blocks
    difference = errors["network"].bad.astype(float) - errors[best].bad
    record = {
        "protocol": "motorcycle-stereo/left-dense/bad3/v1",
        "seed": options.seed,
        "pixels": len(difference),
        "bad": {name: float(error.bad.mean()) for name, error in errors.items()},
        "interval": {name: tfdml.metrics.class_interval(errors[name].bad, blocks) for name in (best, "network")},
        "difference": [float(difference.mean()), *tfdml.metrics.class_interval(difference, blocks)],
        "best": best,
        "processor_seconds": seconds,
        **tfdml.environment("scikit-image"),
    }
    (options.output / "results.json").write_text(json.dumps(record, indent=1))
    for name, share in record["bad"].items():
        print(f"{name:12} bad pixels {100 * share:.1f}%")
    print(f"{time.time() - begin:.0f} seconds; results.json and stereo.png are in {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/stereo"))
    parser.add_argument("--quick", action="store_true", help="four training steps, one window")
    return parser.parse_args()


def stereo_network(seed, steps, split="train"):
    """The descriptor of pixels after training on two simulated strips per step, and its processor seconds."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    strips = patches.stereo_strips(2 * steps, split=split, seed=seed)
    network = patches.mc_cnn(depth=7, width=32)
    sides = [keras.Input((*strips.left.shape[1:], 1), name=name) for name in ("left", "right")]
    model = keras.Model(sides, ops.einsum("nyac,nybc->nyab", *(network(side) for side in sides)))
    warmup = max(1, steps // 10)
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps - warmup, warmup_target=3e-3, warmup_steps=warmup)
    model.compile(keras.optimizers.Adam(rate), loss=row_loss, jit_compile=False)
    begin = time.process_time()
    model.fit((strips.left[..., None], strips.right[..., None]), strips.matches, batch_size=2, verbose=0)
    return network, time.process_time() - begin


def row_loss(matches, similarities):
    """Cross-entropy of the right pixels of a row, for the left pixels that are not hidden.

    A match between two pixels is shared by them; pixels that are between 1 and 2 pixels away from it do not count.
    """
    seen = ops.logical_not(ops.isnan(matches))
    columns = ops.arange(similarities.shape[-1], dtype="float32")
    distance = ops.abs(ops.where(seen, matches, -9.0)[..., None] - columns)
    logits = ops.where((distance >= 1) & (distance < 2), -1e9, similarities / TEMPERATURE)
    aligned = ops.sum(ops.relu(1 - distance) * similarities, axis=-1) / TEMPERATURE
    weights = ops.cast(seen, "float32")
    return ops.sum(weights * (ops.logsumexp(logits, axis=-1) - aligned)) / ops.maximum(ops.sum(weights), 1)


def draw(path, pair, maps):
    """The left image, the measured disparities and the maps, with one scale of colors."""
    truth = np.where(np.isfinite(pair.disparity), pair.disparity, np.nan)
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.9), layout="constrained")
    axes[0, 0].imshow(pair.left)
    axes[0, 0].set_title("Left image")
    for axis, (name, disparities) in zip(axes.flat[1:], {"Measured": truth, **maps}.items(), strict=True):
        image = axis.imshow(disparities, cmap="cividis", vmin=0, vmax=72)
        axis.set_title(name)
    for axis in axes.flat:
        axis.set_axis_off()
    figure.colorbar(image, ax=axes, shrink=0.8, label="Disparity in pixels")
    figure.savefig(path, dpi=72)
    plt.close(figure)


if __name__ == "__main__":
    main()
