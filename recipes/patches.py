"""Patches: do two of them show the same point? A descriptor beside a 2-channel network, and dense stereo.

Claim: on validation photographs, a descriptor that was trained for 98 core seconds has an FPR95 of 11.2%, a 2-channel
network after 72 core seconds 46.4% (test photographs: 17.9% for the descriptor). Dense stereo has 6.9% bad pixels, and
cross-correlation 7.9% at its best window; the difference is -1.0 (-1.6 to -0.2 over blocks). One seed, two busy cores.

    python recipes/patches.py                        # photo patches and the motorcycle pair, seed 0
    python recipes/patches.py --networks 2ch siam    # networks of the paper, too, at the same number of pairs
    python recipes/patches.py --data ROOT --train liberty --test notredame   # PhotoTourism, from its original files
    python recipes/patches.py --quick                # smoke test

Data: views of places in photographs, train and test photographs apart; negative and positive pairs at random. The
descriptor begins with the weights of ImageNet and learns from all pairs of a batch (multi-similarity loss with mining);
the 2-channel network begins with the same weights and sees each pair as one image. Stereo: a small convolutional
network learns from simulated strips of training photographs, and is compared with normalized cross-correlation at its
best window, which is chosen on the pair itself. `python -m studies.patches` repeats all of it with five seeds.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import keras
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from keras import layers, ops

import tfdml

WINDOWS = (5, 7, 9, 11, 13, 15, 17, 21)  # of cross-correlation
STEPS = {"descriptor": 350, "2-channel": 330, "stereo": 300}  # minutes of one core: 3.5, 3.5, 0.8
TEMPERATURE = 0.1  # of the similarities along a row of a stereo pair


def main():
    """Tell the story."""
    options, begin = arguments(), time.time()
    options.output.mkdir(parents=True, exist_ok=True)
    train, test, pairs = phototour(options) if options.data else photo_patches(options.quick)
    results = {}
    for name in ["descriptor", "2-channel", *options.networks]:
        model, seconds = trained(name, train, options.seed, 2 if options.quick else options.steps.get(name, 200))
        results[name] = {"fpr95": rates(model, test, pairs), "processor_seconds": seconds}
        print(f"{name:14} FPR95 {100 * results[name]['fpr95']:.1f}%, trained in {seconds:.0f} s", flush=True)
    if not options.data:
        results["stereo"] = stereo(options)
    about = {"protocol": test.protocol, "pairs": len(pairs), "seed": options.seed, **tfdml.environment("scikit-image")}
    (options.output / "results.json").write_text(json.dumps(about | {"results": results}, indent=1))
    print(f"{time.time() - begin:.0f} seconds; results.json and stereo.png are in {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the scenes of PhotoTourism")
    parser.add_argument("--train", default="liberty")
    parser.add_argument("--test", default="notredame")
    parser.add_argument("--networks", nargs="*", default=[], help="networks of the paper: see networks.patch_networks")
    parser.add_argument("--steps", type=int, help="training steps of all networks; with --data 20,000 are a start")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/patches"))
    parser.add_argument("--quick", action="store_true", help="few places, two steps")
    options = parser.parse_args()
    names = [*STEPS, *options.networks]
    options.steps = STEPS if options.steps is None else dict.fromkeys(names, options.steps)
    return options


def photo_patches(quick=False, split="test", pairs_per_kind=5_000):
    """Training places, and the places of another split with pairs of their views."""
    train, test = tfdml.datasets.photo_patches(splits=("train", split))
    if quick:
        train, test = (
            replace(part.select_classes(range(40)), protocol=f"{part.protocol}/40") for part in (train, test)
        )
    train, test = (
        replace(part, images=part.images.mean(axis=-1, keepdims=True).astype("uint8")) for part in (train, test)
    )
    return train, test, drawn_pairs(test.labels, 500 if quick else pairs_per_kind)


def phototour(options):
    """The two scenes, each in one file after the first run, and the pairs of the protocol."""
    number = {"train_pairs": 1_000, "test_pairs": 1_000} if options.quick else {}
    scenes = tfdml.datasets.phototour(options.data, train=options.train, test=options.test, **number)
    train, test = (scene.cached(options.output / name) for scene, name in zip(scenes, ("train", "test"), strict=True))
    return train, test, scenes[1].pairs


def drawn_pairs(labels, n, seed=0):
    """n pairs of views of a place, and n of different places."""
    random = np.random.default_rng(seed)
    rows = np.argsort(labels, kind="stable").reshape(labels.max() + 1, -1)
    views = np.array([random.choice(rows.shape[1], 2, replace=False) for _ in range(n)])
    matches = rows[random.integers(len(rows), size=n)[:, None], views]
    others = random.integers(len(labels), size=(2 * n, 2))
    others = others[labels[others[:, 0]] != labels[others[:, 1]]][:n]
    return tfdml.datasets.PairList(None, *np.concatenate([matches, others]).T, np.repeat([True, False], n))


def trained(name, train, seed, steps):
    """A network after training, and the seconds of processor time that it took."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    networks = {"descriptor": descriptor, "2-channel": two_channel}
    model = (
        networks[name]()
        if name in networks
        else tfdml.models.PairModel(*tfdml.networks.patch_networks(name, weight_decay=5e-4))
    )
    loss = (
        tfdml.losses.RAWLoss()
        if name == "descriptor"
        else tfdml.losses.PairLogisticLoss()
        if name in networks
        else tfdml.losses.PairHingeLoss()
    )
    rate = cosine(5e-3 if name in networks else 5e-4, steps)
    model.compile(keras.optimizers.Adam(rate), loss=loss, jit_compile=False)
    views = 4 if name == "descriptor" and np.bincount(train.labels).min() >= 4 else 2
    sampler = tfdml.samplers.GroupSampler(
        classes_per_batch=64 // views, examples_per_class=views, short_classes="drop", seed=seed
    )
    batches = (
        sampler.batches(train).enumerate().map(lambda step, batch: (turned(batch[0], (seed, step), views), batch[1]))
    )
    if name != "descriptor":
        batches = batches.map(lambda images, labels: pairs_of(images))
    begin = time.process_time()
    model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
    return model, time.process_time() - begin


def cosine(rate, steps):
    """A warm-up of a tenth of the steps, then cosine decay to 0."""
    warmup = max(1, steps // 10)
    return keras.optimizers.schedules.CosineDecay(0.0, max(1, steps - warmup), warmup_target=rate, warmup_steps=warmup)


def turned(images, seed, per_class):
    """Each class of a batch in one of the eight flips and quarter turns."""
    x = tf.reshape(images, (-1, per_class, *images.shape[1:]))
    bits = tf.random.stateless_uniform((3, x.shape[0], 1, 1, 1, 1), seed, 0, 2, tf.int32) > 0
    x = tf.where(bits[0], tf.reverse(x, [2]), x)
    x = tf.where(bits[1], tf.reverse(x, [3]), x)
    return tf.reshape(tf.where(bits[2], tf.transpose(x, (0, 1, 3, 2, 4)), x), images.shape)


def pairs_of(images):
    """Both views of each class, then the first view of each class with the second one of the next class."""
    a, b = images[::2], images[1::2]
    y = tf.repeat([1.0, -1.0], a.shape[0])
    return (tf.concat([a, a], 0), tf.concat([b, tf.roll(b, 1, axis=0)], 0)), y


def trunk(x):
    """The first eight blocks of EfficientNet-Lite0 on three standardized channels, with the weights of ImageNet."""
    x = layers.Rescaling(58.0, offset=117.0)(x)
    whole = tfdml.networks.efficientnet_lite0(weights="imagenet", input_shape=(64, 64, 3))
    return layers.Flatten()(keras.Model(whole.input, whole.get_layer("blocks.7.add").output, name="trunk")(x))


def standardized(images):
    """Each channel with mean 0 and variance 1."""
    x = ops.cast(images, "float32")
    return layers.LayerNormalization(axis=(1, 2), epsilon=1e-3, center=False, scale=False)(x)


def descriptor():
    """128 numbers of unit norm for a patch."""
    patch = keras.Input((64, 64, 1))
    x = layers.Dense(128)(trunk(ops.repeat(standardized(patch), 3, axis=-1)))
    return tfdml.models.EmbeddingModel(patch, layers.UnitNormalization()(x))


def two_channel():
    """A score for two patches, which are the first two channels of one image; the third is their mean."""
    patches = keras.Input((64, 64, 2))
    x = standardized(patches)
    x = trunk(ops.concatenate([x, ops.mean(x, axis=-1, keepdims=True)], axis=-1))
    return tfdml.models.PairModel(keras.Model(patches, layers.Dense(1)(layers.Dense(256, activation="relu")(x))))


def rates(model, test, pairs):
    """The false positive rate at 95% recall. A network that treats its inputs differently sees them both ways."""
    if not isinstance(model, tfdml.models.PairModel):
        x = tfdml.models.embed(model, test)
        scores = tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second])
    else:
        scores = pair_model_scores(model, test, pairs.first, pairs.second)
        scores += pair_model_scores(model, test, pairs.second, pairs.first)
    return tfdml.metrics.verification_from_scores(scores, pairs.same, far=())["fpr95"]


def pair_model_scores(model, test, first, second, chunk=2_048):
    """Scores of pairs of rows, a chunk at a time."""
    starts = range(0, len(first), chunk)
    sides = ([test.take(rows[i : i + chunk]).examples() for rows in (first, second)] for i in starts)
    return np.concatenate([model.predict(tuple(side), batch_size=256, verbose=0) for side in sides])


def stereo(options):
    """Errors of the network and of cross-correlation at each window; draws the maps."""
    pair = tfdml.datasets.motorcycle_stereo()
    left, right = (image @ np.array([0.299, 0.587, 0.114]) for image in (pair.left, pair.right))
    model, seconds = stereo_network(options.seed, 4 if options.quick else options.steps["stereo"])
    windows = WINDOWS[2:3] if options.quick else WINDOWS
    maps = {f"window {window}": tfdml.datasets.match_windows(left, right, window=window) for window in windows}
    errors = {name: tfdml.datasets.dense_stereo_errors(pair, disparities) for name, disparities in maps.items()}
    best = min(errors, key=lambda name: errors[name].bad.mean())
    network = tfdml.datasets.match_features(*(model.predict(x[None, ..., None], verbose=0)[0] for x in (left, right)))
    errors["network"] = tfdml.datasets.dense_stereo_errors(pair, network)
    draw(options.output / "stereo.png", pair, {f"Cross-correlation, {best}": maps[best], "Network": network})
    blocks = errors[best].blocks
    difference = errors["network"].bad.astype(float) - errors[best].bad
    for name, error in errors.items():
        print(f"stereo, {name:14} bad pixels {100 * error.bad.mean():.1f}%", flush=True)
    return {
        "bad": {name: float(error.bad.mean()) for name, error in errors.items()},
        "interval": {name: tfdml.metrics.bootstrap_interval(errors[name].bad, blocks) for name in (best, "network")},
        "difference": [float(difference.mean()), *tfdml.metrics.bootstrap_interval(difference, blocks)],
        "best": best,
        "processor_seconds": seconds,
    }


def stereo_network(seed, steps, split="train"):
    """The descriptor of pixels after training on two simulated strips per step, and its processor seconds."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    strips = tfdml.datasets.stereo_strips(2 * steps, split=split, seed=seed)
    network = tfdml.networks.mc_cnn(depth=7, width=32)
    sides = [keras.Input((*strips.left.shape[1:], 1), name=name) for name in ("left", "right")]
    model = keras.Model(sides, ops.einsum("nyac,nybc->nyab", *(network(side) for side in sides)))
    model.compile(keras.optimizers.Adam(cosine(3e-3, steps)), loss=row_loss, jit_compile=False)
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
