"""Tracking: a siamese network learns to find an object again, and follows it from its box in the first frame.

Claim: on 30 test clips, the network has a success area of 60.7% (59.6 to 61.8, 95% interval over five seeds), template
matching 56.5%; the difference of 4.2 points is 3.1 to 5.3 over seeds, and -0.6 to 9.3 over clips. A seed takes 300
seconds of processor time (AMD EPYC), and both trackers follow 52 frames a second on one core.

    python -m recipes.tracking              # one seed, test clips
    python -m recipes.tracking --seeds 5    # the tables of README.md, with --choose
    python -m recipes.tracking --choose     # the settings of both trackers, on validation clips
    python -m recipes.tracking --quick      # smoke test, under a minute
    python -m recipes.tracking --data ROOT --dataset got10k    # train on ROOT/GOT-10k, measure its validation part
    python -m recipes.tracking --data ROOT --dataset otb       # train on ROOT/GOT-10k, measure ROOT/OTB

Data: embedded clips of moving, scaled, occluded pieces of photographs, 160 x 120 pixels; the photographs of training,
validation and test are disjoint. Template matching has the same search regions, scales and updates. With --data, the
network of the paper (127 and 255 pixels, stride 8) is trained by Adam; that takes a GPU.
"""

import argparse
import json
import time
from pathlib import Path

import keras
import numpy as np
from keras import ops

import tfdml
from recipes import tracking
from recipes.tracking.overlap import KEYS

DEFAULTS = {"scale_step": 1.025, "scale_damping": 0.35, "window_influence": 0.176}
CHOSEN = {
    "network": DEFAULTS,
    "template": {"share": 0.4, **DEFAULTS, "window_influence": 0.35},
}
GRID = [{}, {"scale_step": 1.05}, {"scale_step": 1.05, "scale_damping": 0.7}, {"window_influence": 0.35}]
DRAWS = 6  # of 240 training clips
SHARES = (1.0, 0.75, 0.6, 0.5, 0.4, 0.3)


def main():
    """Tell the story."""
    options, begin = arguments(), time.process_time()
    options.output.mkdir(parents=True, exist_ok=True)
    train, validation, test = clips_of(options)
    measured = validation if options.choose else test
    runs, tracked = {}, {}
    for name, tracker in trackers(train, options):
        tracked[name], result = followed(tracker, measured, options)
        runs.setdefault(name, []).append(result)
    for name, results in runs.items():
        means = [100 * np.mean([run[key] for run in results]) for key in KEYS]
        print(f"{name:88}" + "".join(f"{mean:14.1f}" for mean in means), flush=True)
    record = {"protocol": measured[0].protocol, "seeds": options.seeds, "runs": runs}
    record |= tfdml.environment("scikit-image")
    if not options.choose:
        speeds = {name: round(results[-1]["frames_per_second"], 1) for name, results in runs.items()}
        record |= {"difference": compared(runs["network"], runs["template"][0]), "frames_per_second": speeds}
        print(record["difference"], speeds)
        boxes = {"truth": measured[0].boxes, **{name: boxes[0] for name, boxes in tracked.items()}}
        tracking.tracks(options.output / "tracks.gif", measured[0], boxes, step=2)
    record["processor_seconds"] = round(time.process_time() - begin, 1)
    (options.output / "results.json").write_text(json.dumps(record, indent=1))
    print(f"{record['processor_seconds']:.0f} processor seconds; results and pictures are in {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="measure all settings on validation clips, with seed 5")
    parser.add_argument("--data", type=Path, help="folder of GOT-10k, and of OTB")
    parser.add_argument("--dataset", choices=["got10k", "otb"], default="got10k")
    parser.add_argument("--output", type=Path, default=Path("runs/tracking"))
    parser.add_argument("--quick", action="store_true", help="a narrow network, one seed, 4 steps; few embedded clips")
    parser.add_argument("--loss", choices=LOSSES, help="softmax; with --data logistic, that of the paper")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    options.seeds = [5] if options.choose else list(range(options.seeds))
    options.loss = options.loss or ("logistic" if options.data else "softmax")
    options.stride, options.width, options.steps = (8, 1.0, 50_000) if options.data else (4, 0.25, 1_000)
    if options.quick:
        options.stride, options.width, options.steps = 4, 0.05, 4
    return options


def clips_of(options):
    """Clips for training, validation and test."""
    if options.data is None:
        train, validation, test = tracking.clips(frames=10 if options.quick else 40)
        if options.quick:
            return train[:3], validation[:3], test[:3]
        for draw in range(1, DRAWS):  # other clips of the same photographs
            train += tracking.clips(splits=("train",), seed=draw)[0]
        return train, tracking.clips(splits=("validation",), frames=20)[0], test
    train = tracking.got10k(options.data / "GOT-10k", "train")
    validation = tracking.got10k(options.data / "GOT-10k", "val")
    if options.dataset == "got10k":
        return train[:-40] if options.choose else train, train[-40:], validation
    return train, validation, tracking.otb(options.data / "OTB")


def softmax_loss(labels, scores):
    """Cross-entropy of all positions of a map: minus the logarithm of the share of the positives in the softmax."""
    positives = ops.where(labels > 0, scores, -1e9)
    return ops.logsumexp(scores, axis=(1, 2)) - ops.logsumexp(positives, axis=(1, 2))


def turned(images, seed):
    """Exemplar and search image of each row in the same one of eight flips and quarter turns."""
    return tuple(tfdml.datasets.rotated_classes(image, seed, examples_per_class=1) for image in images)


LOSSES = {"softmax": softmax_loss, "logistic": tfdml.losses.PairLogisticLoss()}


def trained(train, seed, options):
    """The siamese network after training on pairs of frames."""
    keras.utils.set_random_seed(seed)
    network = tracking.siam_fc(stride=options.stride, width=options.width)
    warmup = max(1, options.steps // 10)
    rate = keras.optimizers.schedules.CosineDecay(0.0, options.steps - warmup, warmup_target=2e-3, warmup_steps=warmup)
    network.compile(keras.optimizers.Adam(rate), loss=LOSSES[options.loss])
    batches = tracking.ClipSampler(batch_size=8, seed=seed).batches(train, stride=options.stride)
    if options.data is None:
        batches = batches.enumerate().map(lambda step, batch: (turned(batch[0], (seed, step)), *batch[1:]))
    if options.loss == "softmax":  # without the weights of positions
        batches = batches.map(lambda images, labels, weights: (images, labels))
    print(f"Training: {options.loss} loss, seed {seed}", flush=True)
    network.fit(batches, steps_per_epoch=options.steps, shuffle=False, verbose=2)
    return network


def trackers(train, options):
    """Name and tracker of each run: of the network with each seed, then of template matching."""
    for seed in options.seeds:
        network = trained(train, seed, options)
        network.save(options.output / "network.keras")
        for settings in [DEFAULTS | other for other in GRID] if options.choose else [CHOSEN["network"]]:
            yield f"network {settings}" if options.choose else "network", tracking.Tracker(network, **settings)
    sizes = {"exemplar_size": 16 * options.stride - 1, "search_size": 32 * options.stride - 1}
    for settings in template_grid() if options.choose else [CHOSEN["template"]]:
        others = {key: value for key, value in settings.items() if key != "share"}
        matcher = tracking.TemplateMatcher(share=settings["share"], **sizes)
        name = f"template {settings}" if options.choose else "template"
        yield name, tracking.Tracker(matcher, upsampling=2, **others)


def template_grid():
    """Settings of template matching, from which those of the recipe were chosen."""
    others = [CHOSEN["template"] | DEFAULTS | other for other in GRID[1:]]
    return [{"share": share, **DEFAULTS} for share in SHARES] + others


def followed(tracker, clips, options):
    """Boxes of all clips, and their measures."""
    boxes, seconds = zip(*(tracker.track(clip) for clip in clips), strict=True)
    truth, protocol = [clip.boxes for clip in clips], {"sizes": [clip.size for clip in clips]}
    if not (options.data and options.dataset == "otb"):
        protocol |= {"first_frame": False, "cover": [clip.cover for clip in clips]}
        protocol |= {"average": "frame"} if options.data else {}
    result = tracking.evaluate(boxes, truth, **protocol)
    success = result.pop("per_sequence")["success_area"].tolist()
    speed = 1 / np.median(np.concatenate(seconds))
    return boxes, {**result, "success_of_clips": success, "frames_per_second": float(speed)}


def compared(networks, template):
    """Success area of the network above that of the template: paired over clips, with an interval over clips."""
    per_clip = np.mean([run["success_of_clips"] for run in networks], axis=0) - template["success_of_clips"]
    low, high = tfdml.metrics.class_interval(per_clip, np.arange(len(per_clip)))
    per_seed = [run["success_area"] - template["success_area"] for run in networks]
    seeds = tfdml.metrics.seed_interval(per_seed) if len(per_seed) > 1 else None
    return {"mean": float(np.nanmean(per_clip)), "interval_of_clips": [low, high], "interval_of_seeds": seeds}


if __name__ == "__main__":
    main()
