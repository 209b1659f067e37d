"""The four retrieval benchmarks from their original files, with the settings and the tables of four papers.

    python -m recipes.benchmarks --list                          # methods, tables and published Recall@1
    python -m recipes.benchmarks --dataset cub --data CUB_200_2011 --methods balanced --weights imagenet
    python -m recipes.benchmarks --dataset in_shop --data In-shop --methods raw-vthm --weights bn_inception.pth
    python -m recipes.benchmarks --dataset sop --data SOP --table sampling-matters-1 --seeds 0 1 2
    python -m recipes.benchmarks --dataset cars --data cars196 --methods dro-topk --quick       # smoke test

For each method and seed it trains, embeds the test part once, and writes results.json. Then it prints Recall@k, MAP@R
and NMI beside the published numbers of benchmarks.csv, as means with 95% intervals over the seeds. A finished seed is
not trained again, and an interrupted one resumes from its checkpoint; a folder of other settings is an error. A table
is named by its paper and its number there. Rows that a paper trains from scratch ignore --weights. Settings that a
paper does not state are ours; they are listed in `not_stated`. A GPU is needed for all but --quick, which trains a tiny
network for a few steps.
"""

import argparse
import csv
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import keras
import numpy as np

import tfdml
from recipes.bn_inception import bn_inception

EPOCH = 100  # steps: after each, the rate of `balanced` decays, and the checkpoint for --resume is written
RANKS = {"cub": (1, 2, 4, 8, 16, 32), "cars": (1, 2, 4, 8, 16, 32), "sop": (1, 2, 4, 8, 10, 100, 1000)}
RANKS["in_shop"] = (1, 10, 20, 30, 40, 50)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a paper says about one of its experiments, and what it leaves open."""

    paper: str
    backbone: str
    dim: int
    loss: Callable  # of the sampler and the training labels
    classes_per_batch: int
    examples_per_class: int
    learning_rate: float
    decay: float = 1.0  # factor of the learning rate after each 100 steps
    steps: int
    resize: int = 256
    size: int = 224
    fit: str = "stretch"
    normalize: bool = True
    freeze_batch_norm: bool = False
    from_scratch: bool = False
    positive_fraction: float | None = None  # p of p-random batches; None for groups
    pairs_per_batch: int = 2_016  # of p-random batches
    not_stated: tuple[str, ...] = ()


def weighted_contrastive(dataset, *, loss, design=(4, 16), positive_fraction=None, normalize=False):
    """Hong, Park, Kim, Deep Metric Learning via Weighted Contrastive Loss, section 6."""
    examples, classes = design
    return Settings(
        paper="Deep Metric Learning via Weighted Contrastive Loss",
        backbone="ResNet50",
        dim=128,
        loss=loss,
        normalize=normalize,
        fit="pad",
        classes_per_batch=classes,
        examples_per_class=examples,
        positive_fraction=positive_fraction,
        learning_rate=1e-4,  # the best of 3e-4, 1e-4 and 3e-5, but not which
        decay=0.9,
        steps=2_000,
        not_stated=("learning_rate", "margin of the loss", "freeze_batch_norm"),
    )


def gradient_analysis(dataset, *, loss):
    """A Unified View of Deep Metric Learning via Gradient Analysis, section 6."""
    examples = 4 if dataset in ("sop", "in_shop") else 5
    return Settings(
        paper="A Unified View of Deep Metric Learning via Gradient Analysis",
        backbone="bn_inception",
        dim=512,
        loss=loss,
        size=227,
        classes_per_batch=80 // examples,
        examples_per_class=examples,
        learning_rate=1e-5,
        steps=8_000,
        freeze_batch_norm=True,
        not_stated=("classes_per_batch", "steps", "freeze_batch_norm"),
    )


def sampling_matters(dataset, *, loss, images=None, from_scratch=False):
    """Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, section 5.

    From scratch, the paper trains for 100 epochs of the products and reports the best; here it is the last.
    """
    images = images or (80 if dataset == "sop" else 125)  # the paper has 128, which is not a multiple of 5
    return Settings(
        paper="Sampling Matters in Deep Embedding Learning",
        backbone="ResNet50V2",
        dim=128,
        loss=loss,
        fit="pad" if dataset == "cub boxes" else "stretch",
        classes_per_batch=images // 5,
        examples_per_class=5,
        learning_rate=1e-4,
        steps=59_551 // images * 100 if from_scratch else 8_000,
        from_scratch=from_scratch,
        not_stated=(
            "learning_rate",
            "freeze_batch_norm",
            "fit without boxes",
            *(["steps"] if dataset != "sop" else []),
        ),
    )


def distributionally_robust(dataset, *, loss, dim=1024):
    """A Simple and Effective Framework for Pairwise Deep Metric Learning, section 4."""
    classes = 128 if dataset == "in_shop" else 16  # batches of 640 and 80
    return Settings(
        paper="A Simple and Effective Framework for Pairwise Deep Metric Learning",
        backbone="bn_inception",
        dim=dim,
        loss=loss,
        size=227,
        classes_per_batch=classes,
        examples_per_class=5,
        learning_rate=1e-5,
        steps=8_000,
        freeze_batch_norm=True,
        not_stated=("margin of the loss", "K or gamma", "steps", "freeze_batch_norm", "resize", "size"),
    )


def plain(make, *, miner=None, negatives=None, **options):
    """A loss that needs the seed of the sampler alone: `miner` and `negatives` are functions of it."""
    choices = {name: choice for name, choice in (("miner", miner), ("negatives", negatives)) if choice}
    return lambda sampler, _: make(**options, **{name: choice(sampler.seed) for name, choice in choices.items()})


def contrastive(sampler, labels):
    """Contrastive loss with importance sampling."""
    return tfdml.losses.ContrastiveLoss(importance=sampler.importance(labels))


def balanced(sampler, labels, *, importance=True):
    """Balanced contrastive loss, with or without importance sampling; 256 is the paper's lambda."""
    return tfdml.losses.BalancedContrastiveLoss(
        class_counts=np.bincount(labels),
        negatives_per_positive=256,
        importance=sampler.importance(labels) if importance else None,
        pairing=sampler.pairing,
    )


def learned_margin(sampler, labels, *, miner):
    """Margin loss with a boundary per class; `miner` is a function of the seed."""
    boundary = tfdml.layers.Boundaries(initial=1.2, class_ids=labels)
    return tfdml.losses.MarginLoss(margin=0.2, boundary=boundary, miner=miner(sampler.seed))


def robust(sampler, labels, *, base, uncertainty):
    """A loss of pairs under a distributionally robust weighting of the batch's pairs."""
    return tfdml.losses.RobustLoss(base(), uncertainty=uncertainty(sampler.batch_size))


LOSSES, MINERS, UNCERTAINTY = tfdml.losses, tfdml.miners, tfdml.losses.uncertainty
PAIRS = {  # each a function of the seed, as are NEGATIVES
    "random": lambda seed: MINERS.BalancedPairs(seed=seed),
    "semi-hard": lambda _: MINERS.SemiHard(min_distance=0.5),
    "dw": lambda seed: MINERS.DistanceWeighted(seed=seed),
    "vthm": lambda _: MINERS.ValidTriplets(margin=0.1),
}
NEGATIVES = {
    "semi-hard": lambda _: MINERS.semi_hard_negatives,
    "dw": lambda seed: MINERS.DistanceWeightedNegatives(seed=seed),
}
SAMPLINGS = ("random", "semi-hard", "dw")
ON_SIMILARITIES = partial(LOSSES.MarginLoss, margin=0.2, boundary=0.5, distance="cosine")
BASES = {"": ON_SIMILARITIES, "-binomial": LOSSES.BinomialDevianceLoss}
# K is twice the number of images in unordered pairs (section 4.2.2), four times in ordered pairs.
SETS = {
    "dro-topk": lambda images: UNCERTAINTY.TopK(4 * images),
    "dro-topk-pn": lambda images: UNCERTAINTY.TopKBalanced(4 * images),
}
DESIGNS = ((2, 32), (4, 16), (8, 8), (16, 4), (32, 2))


def sampled(kind, sampling, distance="euclidean"):
    """The loss of a row of Tables 1 and 2 of Sampling Matters."""
    if kind == "triplet":
        return plain(LOSSES.TripletLoss, distance=distance, negatives=NEGATIVES[sampling])
    if kind == "margin":
        return partial(learned_margin, miner=PAIRS[sampling])
    return plain(LOSSES.ContrastiveLoss, miner=PAIRS[sampling])


METHODS = {
    # Weighted Contrastive Loss, Tables 2 to 4, then the batch designs of Table 1.
    "triplet": partial(
        weighted_contrastive, loss=plain(LOSSES.TripletLoss, negatives=NEGATIVES["semi-hard"]), normalize=True
    ),
    "lifted": partial(weighted_contrastive, loss=plain(LOSSES.LiftedStructureLoss)),
    "cluster": partial(weighted_contrastive, loss=plain(LOSSES.ClusteringLoss), normalize=True),
    "n-pairs": partial(weighted_contrastive, loss=plain(LOSSES.NPairsLoss), design=(2, 32)),
    "contrastive": partial(weighted_contrastive, loss=plain(LOSSES.ContrastiveLoss)),
    "contrastive-is": partial(weighted_contrastive, loss=contrastive),
    "balanced": partial(weighted_contrastive, loss=balanced),
    **{
        f"balanced-{m}x{n}{suffix}": partial(
            weighted_contrastive, loss=partial(balanced, importance=not suffix), design=(m, n)
        )
        for m, n in DESIGNS
        for suffix in ("-no-is", "")
    },
    **{
        f"balanced-p{p}{suffix}": partial(
            weighted_contrastive, loss=partial(balanced, importance=not suffix), positive_fraction=p
        )
        for p in (0.9, 0.5, 0.1)
        for suffix in ("-no-is", "")
    },
    # Gradient Analysis, Table 1, then two of the losses whose numbers Tables 2 and 3 cite, with its network.
    "binomial": partial(gradient_analysis, loss=plain(LOSSES.BinomialDevianceLoss)),
    "raw": partial(gradient_analysis, loss=plain(LOSSES.MultiSimilarityLoss)),
    "vthm": partial(gradient_analysis, loss=plain(LOSSES.CosineContrastiveLoss, threshold=-1.0, miner=PAIRS["vthm"])),
    "binomial-vthm": partial(gradient_analysis, loss=plain(LOSSES.BinomialDevianceLoss, miner=PAIRS["vthm"])),
    "raw-dw": partial(gradient_analysis, loss=plain(LOSSES.RAWLoss, miner=PAIRS["dw"])),
    "raw-semi-hard": partial(gradient_analysis, loss=plain(LOSSES.RAWLoss, miner=PAIRS["semi-hard"])),
    "raw-vthm": partial(gradient_analysis, loss=plain(LOSSES.RAWLoss)),
    "ga-clustering": partial(gradient_analysis, loss=plain(LOSSES.ClusteringLoss)),
    "ga-proxy-nca": partial(
        gradient_analysis, loss=lambda _, labels: LOSSES.ProxyNCALoss(classes=int(np.max(labels)) + 1)
    ),
    # Sampling Matters, Tables 1, 2 and 3.
    **{
        f"sm-{kind}-{sampling}{size}": partial(
            sampling_matters, loss=sampled(kind, sampling), images=images, from_scratch=True
        )
        for size, images in (("", None), ("-40", 40), ("-120", 120))
        for kind in ("contrastive", "triplet", "margin")
        for sampling in SAMPLINGS
        if (kind, sampling) != ("triplet", "random") and not (size and kind == "contrastive")
    },
    **{
        f"sm-triplet-squared-{sampling}": partial(
            sampling_matters, loss=sampled("triplet", sampling, "squared"), from_scratch=True
        )
        for sampling in NEGATIVES
    },
    "margin": partial(sampling_matters, loss=sampled("margin", "dw")),
    **{
        f"margin-{boundary}": partial(
            sampling_matters, loss=plain(LOSSES.MarginLoss, boundary=boundary, miner=PAIRS["dw"])
        )
        for boundary in (0.8, 1.0, 1.2, 1.4)
    },
    # A Simple and Effective Framework, Tables 1 and 3, then 2 and 4.
    "ms": partial(distributionally_robust, loss=plain(LOSSES.RAWLoss)),  # with its miner, as in Tables 1 and 3
    **{
        f"{name}{suffix}": partial(distributionally_robust, loss=partial(robust, base=base, uncertainty=uncertainty))
        for name, uncertainty in SETS.items()
        for suffix, base in BASES.items()
    },
    "dro-kl": partial(
        distributionally_robust, loss=partial(robust, base=ON_SIMILARITIES, uncertainty=lambda _: UNCERTAINTY.KL(0.1))
    ),
    "ms-64": partial(distributionally_robust, loss=plain(LOSSES.MultiSimilarityLoss), dim=64),
    "ls-64": partial(
        distributionally_robust, loss=plain(LOSSES.GeneralizedLiftedLoss, margin=0.0, distance="cosine"), dim=64
    ),
    **{
        f"dro-kl-g-{gamma:g}": partial(
            distributionally_robust,
            loss=partial(robust, base=ON_SIMILARITIES, uncertainty=lambda _, gamma=gamma: UNCERTAINTY.GroupedKL(gamma)),
            dim=64,
        )
        for gamma in (1.0, 0.1, 0.01, 0.001)
    },
}


def published():
    """The published numbers in percent: dict of (method, data set) to a dict of metric to number, and of the tables.

    "cub boxes" and "cars boxes" are images cut to their bounding boxes.
    """
    rows = list(csv.DictReader(Path(__file__).with_suffix(".csv").read_text().splitlines()))
    numbers, tables = {}, {}
    for row in rows:
        pairs = (cell.split(":") for cell in row["published"].split())
        cell = numbers.setdefault((row["method"], row["dataset"]), {})
        cell.update({_metric(name): float(value) for name, value in pairs})
        tables.setdefault((row["table"], row["dataset"]), []).append(row["method"])
    return numbers, tables


def _metric(name):
    return f"recall@{name}" if name.isdigit() else name


def main():
    """Train, measure, report."""
    options = arguments()
    if options.list:
        list_methods()
        return
    for method in options.methods:
        finished = [result(method, seed, options) for seed in options.seeds]
        report(finished)


def result(method, seed, options):
    """The results of a method and a seed: read if they are finished, else trained and measured."""
    dataset = options.dataset + " boxes" * options.boxes
    settings = METHODS[method](dataset)
    settings = smallest(settings) if options.quick else settings
    run = {
        "dataset": dataset,
        "method": method,
        "weights": None if settings.from_scratch else options.weights,
        "quick": options.quick,
        "seed": seed,
        "settings": {name: value for name, value in asdict(settings).items() if name != "loss"},
    }
    run = json.loads(json.dumps(run))  # as a file has it
    folder = options.output / f"{dataset.replace(' ', '-')}-{method}" / f"seed-{seed}"
    begun, file = folder / "run.json", folder / "results.json"
    require_same_run(run, file)
    require_same_run(run, begun)
    if file.exists():
        return json.loads(file.read_text())
    write(begun, run)
    begin = time.time()
    protocol, scores = trained_and_measured(settings, run["weights"], options, seed, folder)
    finished = {
        **run,
        "protocol": protocol,
        "seconds": round(time.time() - begin, 1),  # since this start, also of a resumed run
        **tfdml.environment(),
        "scores": scores,
        "published": published()[0].get((method, dataset), {}),
    }
    write(file, finished)
    return finished


def require_same_run(run, file):
    """Exit with the reason where a file is of a run with other settings: it is neither resumed nor overwritten."""
    earlier = json.loads(file.read_text()) if file.exists() else run
    others = [name for name, value in run.items() if earlier.get(name) != value]
    if others:
        raise SystemExit(
            f"Received {file} with another {', '.join(others)}, expected the same run. Choose another --output, or "
            "move the folder away."
        )


def write(file, content):
    """Write a dict as JSON; a crash leaves the old file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".partial")
    unfinished.write_text(json.dumps(content, indent=1))
    unfinished.replace(file)


def trained_and_measured(settings, weights, options, seed, folder):
    """The protocol and the scores of a run; a checkpoint in its folder is resumed."""
    keras.utils.set_random_seed(seed)
    train, *tests = read(options.dataset, options.data, settings, boxes=options.boxes)
    sampler = sampler_of(settings, seed)
    model = compiled(settings, weights, settings.loss(sampler, train.labels))
    model = trained(model, settings, sampler, train, folder / "checkpoint.keras")
    metric = "cosine" if settings.normalize else "euclidean"
    protocol = tests[0].protocol.replace("full-image", "bbox-crop" if options.boxes else "full-image")
    return protocol, scores_of(model, tests, RANKS[options.dataset], metric)


def sampler_of(settings, seed):
    """The batch design of a paper: p-random pairs, or groups."""
    if settings.positive_fraction:
        return tfdml.samplers.PairSampler(
            pairs_per_batch=settings.pairs_per_batch, positive_fraction=settings.positive_fraction, seed=seed
        )
    return tfdml.samplers.GroupSampler(
        classes_per_batch=settings.classes_per_batch,
        examples_per_class=settings.examples_per_class,
        short_classes="repeat",  # of the products, some classes have fewer images
        seed=seed,
    )


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the methods, their tables and published Recall@1")
    parser.add_argument("--dataset", choices=RANKS)
    parser.add_argument("--data", type=Path, help="folder of the original files")
    parser.add_argument("--methods", "--method", nargs="+", choices=METHODS, default=[], metavar="METHOD")
    parser.add_argument("--table", help="all methods of a table of a paper, such as gradient-analysis-1")
    parser.add_argument("--weights", help='"imagenet" (ResNet-50), or a file; random weights by default')
    parser.add_argument("--boxes", action="store_true", help="crop to the bounding boxes of cub and cars")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--output", type=Path, default=Path("runs"), help="runs by default")
    parser.add_argument("--quick", action="store_true", help="a tiny network with random weights, 4 steps")
    options = parser.parse_args()
    if options.list:
        return options
    if not options.dataset or not options.data:
        parser.error("--dataset and --data name the benchmark and the folder of its files.")
    if options.boxes and options.dataset not in ("cub", "cars"):
        parser.error("--boxes is for cub and cars; no paper crops the others.")
    if options.quick and options.weights:
        parser.error("--quick trains a tiny network from random weights; leave out --weights.")
    if options.table:
        tables = published()[1]
        dataset = options.dataset + " boxes" * options.boxes
        if (options.table, dataset) not in tables:
            known = sorted(table for table, data in tables if data == dataset)
            parser.error(f"Received --table {options.table}, expected one with {dataset}: {', '.join(known)}.")
        options.methods = [*options.methods, *tables[options.table, dataset]]
    if not options.methods:
        parser.error("--methods or --table says what to train; --list prints both.")
    return options


def list_methods():
    """Print each table with its methods and their published Recall@1."""
    numbers, tables = published()
    for table, dataset in sorted(tables):
        print(f"{table}, {dataset}")
        for method in tables[table, dataset]:
            print(f"  {method:<30}{numbers[method, dataset]['recall@1']:>7.2f}")


def smallest(settings):
    """The same method with a tiny network, small images and few steps."""
    batch = {"classes_per_batch": 4, "examples_per_class": 2, "pairs_per_batch": 8}
    return replace(settings, backbone="tiny", dim=8, size=32, resize=40, steps=4, **batch)


def read(dataset, folder, settings, *, boxes=False):
    """The parts of a benchmark: train and test, or train, query and gallery."""
    readers = {
        "cub": tfdml.datasets.public.cub200,
        "cars": tfdml.datasets.public.cars196,
        "sop": tfdml.datasets.public.stanford_online_products,
        "in_shop": tfdml.datasets.public.in_shop,
    }
    view = tfdml.datasets.Preprocessing(size=settings.size, resize=settings.resize, fit=settings.fit, boxes=boxes)
    return readers[dataset](folder, load=view)


def compiled(settings, weights, loss):
    """The network of the paper, compiled with Adam."""
    shape = (settings.size, settings.size, 3)
    model = tfdml.models.from_backbone(
        backbone(settings, shape, weights),
        dim=settings.dim,
        normalize=settings.normalize,
        freeze_batch_norm=settings.freeze_batch_norm,
        input_shape=shape,
        weights=weights,
    )
    rate = keras.optimizers.schedules.ExponentialDecay(settings.learning_rate, EPOCH, settings.decay, staircase=True)
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    return model


def backbone(settings, shape, weights):
    """The name of a network of `keras.applications`, or a model."""
    if settings.backbone == "bn_inception":
        return bn_inception(input_shape=shape, weights=weights)
    if settings.backbone == "tiny":
        images = keras.Input(shape)
        x = keras.layers.Conv2D(8, 3, strides=4, activation="relu")(keras.layers.Rescaling(1 / 255)(images))
        return keras.Model(images, x)
    return settings.backbone


def trained(model, settings, sampler, train, checkpoint):
    """The model after all steps; random crops and mirroring, a checkpoint after each 100 steps."""
    if checkpoint.exists():
        model = keras.saving.load_model(checkpoint)
    epoch = min(EPOCH, settings.steps)
    augment = tfdml.datasets.RandomCrop(settings.size, mirror=True)
    model.fit(
        sampler.batches(train, load=train.load.uncropped, augment=augment, start=model.steps),
        steps_per_epoch=epoch,
        initial_epoch=model.steps // epoch,
        epochs=settings.steps // epoch,
        shuffle=False,
        callbacks=[tfdml.callbacks.TrainingCheckpoint(checkpoint)],
    )
    return model


def scores_of(model, tests, ranks, metric):
    """Recall@k, MAP@R and NMI in percent: of the test part against itself, or of the queries against the gallery.

    Queries and gallery have no NMI.
    """
    query, *gallery = (tfdml.models.embed(model, data, batch_size=64) for data in tests)
    others = {"gallery": gallery[0], "gallery_labels": tests[1].labels} if gallery else {}
    largest = len(tests[-1]) - (0 if gallery else 1)
    ranks = [k for k in ranks if k <= largest]  # a miniature set has fewer neighbors
    scores = tfdml.metrics.retrieval(query, tests[0].labels, k=ranks, metric=metric, full_map=False, **others)
    numbers = {name: 100 * scores[name] for name in (*(f"recall@{k}" for k in ranks), "map@r")}
    if not gallery:
        numbers["nmi"] = 100 * tfdml.metrics.clustering(query, tests[0].labels, metric=metric)["nmi"]
    return numbers


def report(finished):
    """Print what was measured, with 95% intervals over seeds, beside what was published."""
    first, seeds = finished[0], [result["seed"] for result in finished]
    print(f"\n{first['protocol']}, {first['method']}, seeds {seeds}\n{'':>12}{'here':>16}{'published':>11}")
    for name in first["scores"]:
        values = [result["scores"][name] for result in finished]
        print(f"{name:>12}{mean_and_interval(values):>16}{first['published'].get(name, ''):>11}")
    if first["quick"]:
        print("A smoke test with a tiny network: its numbers say nothing.")
    elif first["settings"]["from_scratch"]:
        print("From random weights, as in the paper, which reports its best epoch; this is the last.")
    elif first["weights"] is None:
        print("From random weights: the published numbers are from networks that were trained on ImageNet.")
    print(f"Not stated in the paper, and ours: {', '.join(first['settings']['not_stated'])}.")


def mean_and_interval(values):
    """The mean and half of its 95% interval, as text; the value alone for one seed."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    low, high = tfdml.metrics.seed_interval(values)
    return f"{np.mean(values):.2f} ± {(high - low) / 2:.2f}"


if __name__ == "__main__":
    main()
