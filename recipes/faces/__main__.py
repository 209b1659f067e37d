"""Face verification from data to a number: one network, ten folds, thresholds, and a look at the pairs that are wrong.

Claim: two networks, tuned for verification in two minutes of processor time, decide 98.58% of 6,000 pairs of unseen
characters (five seeds, 98.43 to 98.67; standard error over ten folds 0.17), with scores relative to neighborhoods. The
same networks untouched decide 98.28%, relative to neighborhoods 98.55%, and pixels 76.57%.

    python -m recipes.faces                 # glyphs in place of faces, two seeds
    python -m recipes.faces --seeds 5       # the numbers of the page
    python -m recipes.faces --choose        # the learning rate, on validation classes, with one seed
    python -m recipes.faces --quick         # smoke test, under a minute
    python -m recipes.faces --data ROOT     # CASIA-WebFace and LFW, from ROOT/CASIA-WebFace and ROOT/LFW; needs a GPU

The loss is that of Wu et al., Sampling Matters in Deep Embedding Learning: margin loss with a learned boundary and
distance-weighted negatives, batches of 40 classes with 5 images each. On glyphs it tunes two networks of the zoo that
were trained for search, and 6,000 pairs of test classes in ten folds without a common class are decided.
On faces it trains the narrow ResNet of the paper from random weights, on faces aligned by five points; all 6,000 pairs
of LFW are decided. No full run on faces is published here.
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

import tfdml
from recipes.faces import align_faces, casia_webface, face_points, face_resnet

KEYS = ["accuracy", "accuracy_se", "auc", "eer"]
STARTS = ("glyphs-multi-similarity", "glyphs-nt-xent")  # of the zoo
RATE, RATES, STEPS = 3e-3, (1e-3, 3e-3), 60
COHORT, RELATIVE = 10_000, "relative"  # training images whose neighborhoods correct the scores
FACE_RATE, FACE_STEPS = 1e-3, 60_000
BLUE, ORANGE, GRAY = "#0072B2", "#E69F00", "#888888"


def main():
    """Tell the story."""
    options, begin = arguments(), time.process_time()
    options.output.mkdir(parents=True, exist_ok=True)
    train, test, pairs = faces(options) if options.data else glyphs(options)
    cohort = few(train, options)
    x = pixels(test)
    scores = {"pixels": [tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second])]}
    if not options.data:
        add(scores, "networks for search", networks(options), cohort, test, pairs)
    for rate in options.rates:
        name = f"margin loss, rate {rate}" if options.choose else "margin loss"
        for seed in options.seeds:
            models = [trained(model, train, rate, seed, options) for model in networks(options)]
            add(scores, name, models, cohort, test, pairs)

    numbers = {
        name: [tfdml.metrics.verification(one, pairs.same, pairs.folds, far=()) for one in runs]
        for name, runs in scores.items()
    }
    decisions = tfdml.metrics.fold_accuracy(list(scores.values())[-1][0], pairs.same, pairs.folds)
    draw(options.output / "faces.png", scores, test, pairs, decisions)
    record = {
        "protocol": f"{test.protocol}/{len(pairs)}-pairs-{len(np.unique(pairs.folds))}-folds",
        "images_without_face": options.without_face,
        "seeds": options.seeds,
        "processor_seconds": round(time.process_time() - begin, 1),
        **tfdml.environment("pillow", "matplotlib"),
        "thresholds": dict(zip(decisions.folds.tolist(), decisions.thresholds.round(4).tolist(), strict=True)),
        "results": {method: [{key: run[key] for key in KEYS} for run in runs] for method, runs in numbers.items()},
    }
    (options.output / "results.json").write_text(json.dumps(record, indent=1))
    for method, runs in record["results"].items():
        values = [100 * run["accuracy"] for run in runs]
        error = 100 * np.mean([run["accuracy_se"] for run in runs])
        values = f"{np.mean(values):.2f} % [{min(values):.2f}, {max(values):.2f}]"
        print(f"{method:52}{values}, error over folds {error:.2f}")
    print(f"{record['processor_seconds']} processor seconds; results.json and faces.png are in {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="all learning rates on validation classes, one seed")
    parser.add_argument("--data", type=Path, help="folder with CASIA-WebFace and LFW; glyphs if not given")
    parser.add_argument("--output", type=Path, default=Path("runs/faces"))
    parser.add_argument("--quick", action="store_true", help="few classes or a tiny network, one seed, 3 steps")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    if options.choose and options.data:
        parser.error("--choose is for glyphs: choose the rate of faces on View 1 of LFW")
    options.size, options.crop, options.without_face = (64, 56, {}) if options.quick else (256, 224, {})
    options.seeds = [0] if options.choose or options.quick or options.data else list(range(1, options.seeds + 1))
    options.rates = RATES if options.choose else [FACE_RATE if options.data else RATE]
    options.steps = 3 if options.quick else FACE_STEPS if options.data else STEPS
    return options


def glyphs(options):
    """Training classes, other classes to measure, and pairs of them. With --choose, of validation."""
    train, test = tfdml.datasets.glyphs(validation=True)[:2] if options.choose else tfdml.datasets.glyphs()
    if not options.quick:
        return train, test, tfdml.datasets.verification_pairs(test)
    train, test = train.select_classes(range(40)), test.select_classes(range(40))
    test = replace(test, protocol="glyphs/class-disjoint/exact-cosine/v1/first-40-classes")
    return train, test, tfdml.datasets.verification_pairs(test, folds=2, matched=100)


def faces(options):
    """CASIA-WebFace to train on, LFW in one file to measure, both aligned, and the pairs of View 2."""
    train = casia_webface(options.data / "CASIA-WebFace")
    test, pairs = tfdml.datasets.public.lfw(options.data / "LFW")
    return aligned(train, "casia", options), aligned(test, "lfw", options).cached(options.output / "lfw"), pairs


def aligned(data, name, options):
    """Aligned faces of 256 x 256 pixels. The detector runs once; an image without a face is cropped."""
    file = options.output / f"{name}-points.npy"
    if not file.exists():
        np.save(file, face_points(data))
    points = np.load(file)
    options.without_face[name] = int(np.isnan(points[:, 0, 0]).sum())
    print(f"{name}: {options.without_face[name]:,} of {len(data):,} images without a face")
    return align_faces(data, points, size=options.size)


def few(train, options):
    """Training images, at most `COHORT` of them."""
    cohort = train.take(np.random.default_rng(0).permutation(len(train))[:COHORT])
    return cohort.cached(options.output / "cohort") if options.data else cohort


def networks(options):
    """The networks before training: one of faces with random weights, several of glyphs from the zoo."""
    if options.data:
        images = keras.Input((options.crop, options.crop, 3), dtype="uint8")
        sizes = {"widths": (8, 8), "blocks": (1,)} if options.quick else {}
        return [tfdml.models.EmbeddingModel(images, face_resnet(images, **sizes))]
    starts = [tfdml.zoo.load(name) for name in (STARTS[:1] if options.quick else STARTS)]
    return [tfdml.models.EmbeddingModel(start.inputs, start.outputs) for start in starts]


def trained(model, train, rate, seed, options):
    """The network after training."""
    keras.utils.set_random_seed(seed)
    boundary = tfdml.layers.Boundaries(1.2 if options.data else 1.0)
    loss = tfdml.losses.MarginLoss(boundary=boundary, miner=tfdml.miners.DistanceWeighted(seed=seed))
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, options.steps * 9 // 10, warmup_target=rate, warmup_steps=max(options.steps // 10, 1)
    )
    model.compile(keras.optimizers.Adam(schedule), loss=loss, learning_rate_multipliers={boundary.name: 10.0})
    classes, images = (4, 2) if options.quick and options.data else (40, 5)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=classes, examples_per_class=images, seed=seed)
    augment = tfdml.datasets.RandomCrop(options.crop) if options.data else None
    print(f"Training: rate {rate}, seed {seed}", flush=True)
    model.fit(sampler.batches(train, augment=augment), steps_per_epoch=options.steps, shuffle=False, verbose=2)
    return model


def embedded(models, data):
    """Embeddings of all images by all networks, side by side; of faces by their center."""
    side = models[0].input_shape[1]
    first = (data.images.shape[1] - side) // 2
    center = replace(data, images=data.images[:, first : first + side, first : first + side])
    return np.concatenate([tfdml.models.embed(model, center) for model in models], axis=1)


def add(scores, name, models, cohort, test, pairs):
    """Add the cosines of a run, and these relative to the neighborhoods of both images among the cohort."""
    x = embedded(models, test)
    near = tfdml.search.neighborhood_similarity(x, embedded(models, cohort))
    cosines = tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second])
    scores.setdefault(name, []).append(cosines)
    scores.setdefault(f"{name}, {RELATIVE}", []).append(cosines - (near[pairs.first] + near[pairs.second]) / 2)


def pixels(test):
    """The pixels as embeddings, minus their mean; of faces, the means of 8 x 8 pixels."""
    n, side, _, channels = test.images.shape
    block = 1 if side == 32 else 8
    squares = test.images.reshape(n, side // block, block, side // block, block, channels)
    x = squares.mean(axis=(2, 4), dtype="float32").reshape(n, -1)
    return x - x.mean(axis=1, keepdims=True)


def draw(path, scores, test, pairs, decisions):
    """ROC curves of the first seeds, and the wrong pairs whose scores are farthest from the threshold of their fold."""
    figure = plt.figure(figsize=(10, 4.2), layout="constrained")
    curves, wrong = figure.subfigures(1, 2, width_ratios=(1, 1.25))
    axes = curves.subplots()
    for color, (name, runs) in zip((GRAY, ORANGE, BLUE), list(scores.items())[-3:], strict=False):
        far, tar, _ = tfdml.metrics.roc(runs[0], pairs.same)
        axes.plot(100 * far, 100 * tar, color=color, label=name)
    axes.set(xscale="log", xlim=(0.1, 100), xlabel="false accept rate, %", ylabel="true accept rate, %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    score = list(scores.values())[-1][0]
    distance = np.abs(score - decisions.thresholds[np.searchsorted(decisions.folds, pairs.folds)])
    panels = wrong.subplots(2, 5)
    for row, is_same, title in ((0, True, "rejected, the same"), (1, False, "accepted, different")):
        rows = np.flatnonzero((decisions.accepted != pairs.same) & (pairs.same == is_same))
        for axes, pair in zip(panels[row], rows[np.argsort(-distance[rows])], strict=False):
            both = np.concatenate(test.take([pairs.first[pair], pairs.second[pair]]).examples(), axis=0)
            axes.imshow(both, cmap="gray")
            axes.set_title(f"{score[pair]:.2f}", fontsize=9)
        panels[row][0].set_ylabel(title, fontsize=9)
    for axes in panels.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
