"""Patches: do two of them show the same point? A descriptor beside a 2-channel network.

Claim: on test photographs, a descriptor has an FPR95 of 7.7% (6.7 to 8.7 over five seeds) after 166 core seconds, and a
2-channel network of the same time 27.6% (27.0 to 28.1); SIFT has 77.7%. A pair is a forward pass of the 2-channel
network, so that it sees fewer pairs.

    python -m recipes.patches                        # photo patches, seed 0
    python -m recipes.patches --loss hardest         # a descriptor of hardest-in-batch triplets, or contrastive
    python -m recipes.patches --hard-pairs           # the other networks learn from pairs that it confuses
    python -m recipes.patches --networks 2ch siam    # networks of the paper, too, for the same time
    python -m recipes.patches --networks "siam, mined pairs"    # the hardest pairs of each batch, by its own features
    python -m recipes.patches --data ROOT --train liberty --test notredame   # PhotoTourism, from its original files
    python -m recipes.patches --quick                # smoke test

Data: views of places in photographs, train and test photographs apart; negative and positive pairs at random. The
descriptor begins with the weights of ImageNet and learns from all pairs of a batch (multi-similarity loss with mining);
the 2-channel network begins with the same weights and sees each pair as one image. Beside them are the pixels at a
quarter of the resolution. `python -m studies.patches` repeats it with five seeds; dense_stereo.py is dense stereo.
"""

import argparse
import functools
import json
import time
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import tfdml
from recipes import patches

MINED = ", mined pairs"  # after the name of a siamese network, which then chooses among the pairs of its own features
WARMED = f"{MINED} after as many steps of random ones"
STEPS = {  # about three minutes of one core each
    "descriptor": 350,
    "2-channel": 330,
    "2ch": 780,
    "2ch-deep": 220,
    "2ch-2stream": 310,
    "siam": 480,
    "pseudo-siam": 480,
    "siam-2stream": 450,
    f"siam{MINED}": 680,
    f"siam-2stream{MINED}": 650,
    f"siam{WARMED}": 290,
    f"siam-2stream{WARMED}": 170,
}
LOSSES = {
    "multi-similarity": tfdml.losses.RAWLoss(),  # with its own mining
    "contrastive": tfdml.losses.ContrastiveLoss(miner=tfdml.miners.HardestNegatives()),
    "hardest": tfdml.losses.BatchHardTripletLoss(  # of the negatives of both patches, as in HardNet
        margin=1.0, pairing=tfdml.pairs.even_against_odd, distance=tfdml.pairs.two_way_euclidean
    ),
}


def main():
    """Tell the story."""
    options, begin = arguments(), time.time()
    options.output.mkdir(parents=True, exist_ok=True)
    train, test, pairs = phototour(options) if options.data else photo_patches(options.quick)
    results, miner = {"pixels": {"fpr95": rates(pixels(), test, pairs)}}, None
    for name in ["descriptor", "2-channel", *options.networks]:
        steps = 2 if options.quick else options.steps[name]
        model, seconds = trained(name, train, options.seed, steps, options.loss, miner, options.quick)
        results[name] = {"fpr95": rates(model, test, pairs), "processor_seconds": seconds}
        print(f"{name:14} FPR95 {100 * results[name]['fpr95']:.1f}%, trained in {seconds:.0f} s", flush=True)
        if name == "descriptor":
            some = test.take(np.arange(min(len(test), 2_000)))
            figure = tfdml.visualize.retrieval_grid(tfdml.models.embed(model, some), some, k=8)
            figure.savefig(options.output / "patches.png", dpi=90)
            miner = model if options.hard_pairs else None
    about = {"protocol": test.protocol, "pairs": len(pairs), "seed": options.seed, **tfdml.environment("scikit-image")}
    about |= {"loss": options.loss, "hard_pairs": options.hard_pairs, "results": results}
    (options.output / "results.json").write_text(json.dumps(about, indent=1))
    print(f"{time.time() - begin:.0f} seconds; results.json and patches.png are in {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the scenes of PhotoTourism")
    parser.add_argument("--train", default="liberty")
    parser.add_argument("--test", default="notredame")
    parser.add_argument("--loss", choices=LOSSES, default="multi-similarity")
    parser.add_argument("--hard-pairs", action="store_true", help="pairs that the descriptor confuses, not random ones")
    parser.add_argument("--networks", nargs="*", default=[], choices=[*STEPS], help="networks of the paper")
    parser.add_argument("--steps", type=int, help="training steps of all networks; with --data 20,000 are a start")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/patches"))
    parser.add_argument("--quick", action="store_true", help="few places, few pairs, a tiny trunk, two steps")
    options = parser.parse_args()
    options.steps = dict.fromkeys(STEPS, options.steps) if options.steps else STEPS
    return options


def photo_patches(quick=False, split="test", pairs_per_kind=5_000):
    """Training places, and the places of another split with pairs of their views."""
    sets = tfdml.datasets.photo_patches(splits=("train", split))
    if quick:
        sets = [replace(each.select_classes(range(40)), protocol=f"{each.protocol}/40") for each in sets]
    train, test = (replace(each, images=each.images.mean(-1, keepdims=True).astype("uint8")) for each in sets)
    return train, test, drawn_pairs(test.labels, 500 if quick else pairs_per_kind)


def phototour(options):
    """The two scenes, each in one file after the first run, and the pairs of the protocol."""
    number = {"train_pairs": 1_000, "test_pairs": 1_000} if options.quick else {}
    scenes = patches.phototour(options.data, train=options.train, test=options.test, **number)
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


def trained(name, train, seed, steps, loss="multi-similarity", miner=None, quick=False):
    """A network after training, and its seconds of processor time. A `miner` is a descriptor that chooses its pairs."""
    plain, is_mined, seconds = name.partition(MINED)[0], MINED in name, 0.0
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model, loss_function, rate = network(plain, loss, quick)
    if name.endswith(WARMED):
        model, seconds = trained(plain, train, seed, steps, loss, quick=quick)
    trainer = model
    if is_mined:
        trainer = tfdml.models.PairMining(model, miner=tfdml.miners.HardestNegatives(), pairs_per_batch=64)
    warmup = max(1, steps // 10)
    rate = keras.optimizers.schedules.CosineDecay(0.0, max(1, steps - warmup), warmup_target=rate, warmup_steps=warmup)
    trainer.compile(keras.optimizers.Adam(rate), loss=loss_function, jit_compile=False)
    views = 4 if name == "descriptor" and loss != "hardest" and np.bincount(train.labels).min() >= 4 else 2
    counts = {"classes_per_batch": 64 // views, "examples_per_class": views}
    sampler = tfdml.samplers.GroupSampler(**counts, short_classes="drop", seed=seed)
    batches = turned(sampler, train, views)
    if miner is not None and trainer is model:
        hard = tfdml.samplers.MinedPairs(train.labels, positives=3, negatives=20)
        hard.refresh(tfdml.models.embed(miner, train))
        triplets = turned(tfdml.samplers.MinedSampler(anchors_per_batch=32, pairs=hard, seed=seed), train, 3)
        batches = tfdml.samplers.input_pairs(triplets, pairing=tfdml.pairs.triplet_rows, pairs_per_batch=64, seed=seed)
    elif name != "descriptor" and trainer is model:
        batches = batches.map(lambda images, labels: pairs_of(images))
    begin = time.process_time()
    trainer.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
    return model, seconds + time.process_time() - begin


def turned(sampler, train, views):
    """Batches in which each class, or each triplet, is in one of the eight flips and quarter turns."""
    turn = functools.partial(tfdml.datasets.rotated_classes, examples_per_class=views)
    return sampler.batches(train).enumerate().map(lambda step, batch: (turn(batch[0], (sampler.seed, step)), batch[1]))


def pairs_of(images):
    """Both views of each class, then the first view of each class with the second one of the next class."""
    a, b = images[::2], images[1::2]
    y = tf.repeat([1.0, -1.0], a.shape[0])
    return (tf.concat([a, a], 0), tf.concat([b, tf.roll(b, 1, axis=0)], 0)), y


def network(name, loss, quick):
    """A network, its loss and its learning rate."""
    if name == "descriptor":
        return descriptor(quick), LOSSES[loss], 5e-3
    if name == "2-channel":
        return two_channel(quick), tfdml.losses.PairLogisticLoss(), 5e-3
    networks = patches.patch_networks(name, weight_decay=5e-4)
    return tfdml.models.PairModel(*networks), tfdml.losses.PairHingeLoss(), 5e-4


def trunk(x, quick):
    """The first eight blocks of EfficientNet-Lite0 on three standardized channels, with the weights of ImageNet."""
    x = layers.Rescaling(58.0, offset=117.0)(x)
    if quick:
        return layers.Flatten()(layers.Conv2D(8, 8, strides=8, activation="relu")(x))
    whole = tfdml.models.efficientnet_lite(weights="imagenet", input_shape=(64, 64, 3))
    return layers.Flatten()(keras.Model(whole.input, whole.get_layer("blocks_7_add").output, name="trunk")(x))


def standardized(images):
    """Each channel with mean 0 and variance 1."""
    x = ops.cast(images, "float32")
    return layers.LayerNormalization(axis=(1, 2), epsilon=1e-3, center=False, scale=False)(x)


def descriptor(quick):
    """128 numbers of unit norm for a patch."""
    patch = keras.Input((64, 64, 1))
    x = layers.Dense(128)(trunk(ops.repeat(standardized(patch), 3, axis=-1), quick))
    return tfdml.models.EmbeddingModel(patch, layers.UnitNormalization()(x))


def two_channel(quick):
    """A score for two patches, which are the first two channels of one image; the third is their mean."""
    both = keras.Input((64, 64, 2))
    x = standardized(both)
    x = trunk(ops.concatenate([x, ops.mean(x, axis=-1, keepdims=True)], axis=-1), quick)
    return tfdml.models.PairModel(keras.Model(both, layers.Dense(1)(layers.Dense(256, activation="relu")(x))))


def pixels():
    """The standardized patch at a quarter of its resolution."""
    patch = keras.Input((64, 64, 1))
    return tfdml.models.EmbeddingModel(patch, layers.Flatten()(layers.AveragePooling2D(4)(standardized(patch))))


def rates(model, test, pairs):
    """The false positive rate at 95% recall. A network that treats its inputs differently sees them both ways."""
    if isinstance(model, tfdml.models.PairModel):
        both = (pairs.first, pairs.second), (pairs.second, pairs.first)
        scores = sum(tfdml.models.score_pairs(model, test, *rows) for rows in both)
    else:
        x = tfdml.models.embed(model, test)
        scores = tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second])
    return tfdml.metrics.verification(scores, pairs.same, far=())["fpr95"]


if __name__ == "__main__":
    main()
