"""What decides pairs without any training: pixels, and the models of the zoo, on the pairs of other studies."""

from functools import partial

import tfdml
from studies import runner

MODELS = ("glyphs-nt-xent", "glyphs-multi-similarity", "glyphs-semi-hard-triplet")
PARTS = ("validation", "test")


def rows(options):
    """One row per model and part."""
    parts = tfdml.datasets.glyphs(validation=True)[1:]
    models = MODELS[:1] if options.quick else MODELS
    embeddings = {"pixels": lambda part: _pixels(part.images)}
    embeddings |= {name: partial(tfdml.models.embed, tfdml.zoo.load(name)) for name in models}
    return [
        _row(name, part_name, part, embed(part))
        for name, embed in embeddings.items()
        for part_name, part in zip(PARTS, parts, strict=True)
    ]


def _pixels(images):
    x = images.reshape(len(images), -1).astype("float32")
    return x - x.mean(axis=1, keepdims=True)


def _row(name, part_name, part, x):
    pairs = tfdml.datasets.verification_pairs(part)
    scores = tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second])
    numbers = tfdml.metrics.verification(scores, pairs.same, pairs.folds, far=())
    rounded = {key: round(numbers[key], 4) for key in ("accuracy", "accuracy_se", "auc", "eer")}
    about = {"protocol": f"{part.protocol}/10-folds", **tfdml.environment("pillow", "matplotlib")}
    return {"model": name, "part": part_name, **rounded, **about}


def tables(rows):
    """Accuracy and equal error rate of each model, in percent."""
    body = []
    for model in dict.fromkeys(row["model"] for row in rows):
        cells = [runner.where(rows, model=model, part=part)[0] for part in PARTS]
        accuracies = [f"{100 * row['accuracy']:.2f} ± {100 * row['accuracy_se']:.2f}" for row in cells]
        body.append([model, *accuracies, f"{100 * cells[-1]['eer']:.2f}"])
    return {"untouched": runner.markdown(["", "validation classes", "test classes", "EER of test"], body)}
