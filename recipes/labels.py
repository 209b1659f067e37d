"""From a folder without labels to a search that learns: features, fifty chosen labels, training with them, ten clicks.

    python recipes/labels.py                    # photographs of things, five minutes of two cores
    python recipes/labels.py --data patches     # photo patches
    python recipes/labels.py --data FOLDER      # one subfolder per class, or the files of Fashion-MNIST
    python recipes/labels.py --quick            # smoke test

The classes of the set are hidden; they answer where a person would. Each step is measured on the images that never got
a label: MAP@R, and the difference to the network as it is, with 95% intervals over classes. `tfdml train --unlabeled`,
`tfdml select`, and the buttons Yes and No of `tfdml serve` are these steps as commands. One run of each (AMD EPYC):

* photo patches, 200 places, MAP@R 8.6: without labels +7.5 [+6.1, +8.8], with 50 labels +7.2 [+5.8, +8.6] in all; ten
  clicks gain 10.1 points of Recall@10 [+4.3, +15.9];
* things, 30 of them, MAP@R 17.2: +39.0 [+33.0, +44.9], +32.7 [+26.5, +38.8], and 25.5 [+19.1, +31.9];
* Fashion-MNIST, 2,000 images, MAP@R 31.6: -0.1 [-6.6, +6.4], -0.6 [-7.9, +6.7], and 16.5 [+8.3, +24.8]. The proof by
  views was passed, and yet the classes are no nearer: a few labels (`--labels`) would have told.

Fifty labels added nothing to what the views had taught. The images that are searched are those that train, without
their classes: that is the use, and no number for others.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import tfdml
from recipes import things

CLICKS, QUERIES = 10, 200


def set_of(name, quick):
    """A set with the classes that a person would know; no image of it has trained or chosen anything."""
    if name == "things":
        return things.things(("test",), views=16, most=4 if quick else None)[0]
    if name == "patches":
        return tfdml.datasets.photo_patches(splits=["test"])[0].select_classes(range(20 if quick else 200))
    if any(Path(name).glob("t10k-*")):
        _, test = tfdml.datasets.idx(name)
        return test.take(np.random.default_rng(0).permutation(len(test))[: 200 if quick else 2000])
    return tfdml.datasets.folder(name)


def network(images, folder, **options):
    """What `tfdml train --unlabeled` leaves: its network, or the one before training where it was no worse."""
    return tfdml.training.train(images, folder, unlabeled=True, verbose=0, **options).model


def gain_of_clicks(x, labels, rows):
    """Recall@10 of items without a judgement, before and after ten clicks, for some queries."""
    found = []
    for row in rows:
        query, judged, answers = x[row], [row], {True: [], False: []}
        for _ in range(CLICKS):
            scores = x @ query
            scores[judged] = -np.inf
            click = int(scores.argmax())  # the first answer that has no judgement
            judged.append(click)
            answers[bool(labels[click] == labels[row])].append(x[click])
            if answers[True]:
                query = tfdml.search.refine(x[row], answers[True], answers[False] or None)
        rest = np.setdiff1d(np.arange(len(x)), judged)
        is_right = labels[rest] == labels[row]
        most = min(10, is_right.sum())
        right = [is_right[np.argsort(-(x[rest] @ each), kind="stable")[:10]].sum() for each in (x[row], query)]
        found.append(np.array(right) / most if most else [np.nan, np.nan])
    return np.transpose(found)


def main():
    """Take the steps one after the other, and print what each has gained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="things", help="things, patches, or a folder")
    parser.add_argument("--labels", type=int, default=50, help="how many images a person labels")
    parser.add_argument("--quick", action="store_true", help="smoke test")
    options = parser.parse_args()
    known = set_of(options.data, options.quick)
    is_small = known.images is not None and known.images.shape[1] < 128
    size, count = (32, 8) if options.quick else (64 if is_small else 128, options.labels)
    known = replace(known, load=tfdml.datasets.Preprocessing(size=size, resize=round(8 / 7 * size), fit="pad"))
    hidden = replace(known, labels=np.full(len(known), -1), class_names=())
    small = {"steps": 2, "epochs": 1, "backbone": "residual", "classes_per_batch": 8} if options.quick else {}
    start = {"backbone": "residual", "size": size} | small if options.quick else {"size": size}

    with tempfile.TemporaryDirectory() as folder:
        shape = (size, size, 3)
        name = "MobileNetV2" if options.quick else "EfficientNetLite0"
        weights = {"weights": None} if options.quick else {}
        networks = {"as it is": tfdml.models.from_backbone(name, input_shape=shape, dim=None, **weights)}
        networks["without labels"] = network(hidden, Path(folder) / "views", **start)
        features = np.asarray(tfdml.models.embed(networks["without labels"], known))
        chosen = tfdml.cleaning.select(features, count).rows
        labels = np.full(len(known), -1)
        labels[chosen] = known.labels[chosen]
        print(f"{count} of {len(known)} images get a label; they are of {len(set(labels[chosen]))} classes")
        labeled = replace(hidden, labels=labels, class_names=known.class_names)
        networks[f"with {count} labels"] = network(labeled, Path(folder) / "labels", **start)

    rest = np.flatnonzero(labels < 0)
    vectors = {name: np.asarray(tfdml.models.embed(each, known.take(rest))) for name, each in networks.items()}
    truth = known.labels[rest]
    print(tfdml.evaluation.compare(vectors, truth, metrics=("map@r", "recall@1"), against="as it is"))

    x = vectors[f"with {count} labels"]
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    queries = np.random.default_rng(0).permutation(len(x))[: 10 if options.quick else QUERIES]
    before, after = gain_of_clicks(x, truth, queries)
    low, high = (100 * bound for bound in tfdml.metrics.class_interval(after - before, truth[queries]))
    print(f"Recall@10 of {len(queries)} queries: {100 * np.nanmean(before):.1f}, after ten clicks")
    print(f"{100 * np.nanmean(after):.1f}: {100 * np.nanmean(after - before):+.1f} [{low:+.1f}, {high:+.1f}]")


if __name__ == "__main__":
    main()
