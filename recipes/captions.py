"""Pictures and texts: a network of images and a network of captions learn one space from glyphs and their descriptions.

Claim: an image of an unseen character finds its caption first, of 8,025, for 24.2% of 9,859 images (23.5 to 24.6 over
three seeds) with the symmetric softmax of CLIP and for 20.0% (18.4 to 21.1) with the sigmoid loss; by chance for 0.01%.
Six trainings took 18 minutes on two busy cores, two to three minutes each.

    python recipes/captions.py              # both losses, three seeds each
    python recipes/captions.py --quick      # smoke test, under a minute

Pairs of your own, without classes: `captions.csv` has the columns path, relative to its folder, and caption. Images
that share a caption are one subject; one in ten subjects is held out. Both towers begin as those of a preset of
KerasHub (`pip install tfdml[hub]`), with its scale and bias, or at random. `pair.keras` is a MODEL of the command line:

    python recipes/captions.py --captions captions.csv --preset siglip2_base_patch16_224 --output runs/pair
    tfdml embed photos photos.parquet --model runs/pair/pair.keras
    tfdml search runs/pair/pair.keras photos.parquet --text "a red kangaroo"

Data: glyphs, 32 x 32 pixels. A caption is the style of the typeface and the Unicode name of the character: "slanted
bold sans-serif latin small letter u with acute". Test characters are unseen in training, but all words of their
captions are seen. A query is an image of a test character, and the gallery is the captions of the test images, each
once. Both networks start from random weights; the settings were not tuned.
"""

import argparse
import csv
import json
import time
import unicodedata
from pathlib import Path

import keras
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import tfdml

WORDS, DIM = 16, 128
LOSSES = {"softmax": tfdml.losses.CLIPLoss, "sigmoid": tfdml.losses.SigmoidLoss}
STYLES = {
    "sans-serif": ("DejaVuSans", "cmss"),
    "monospaced": ("DejaVuSansMono", "cmtt"),
    "serif": ("DejaVuSerif", "STIX", "cmr", "cmb", "cmmi"),
    "bold": ("-Bold", "Bol", "cmb"),
    "slanted": ("Oblique", "Italic", "Ita", "cmmi"),
}


def main():
    """Tell the story."""
    options, begin = arguments(), time.time()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.captions:
        return tune(options)
    train, test = tfdml.datasets.glyphs()
    if options.quick:
        train, test = train.select_classes(range(60)), test.select_classes(range(60))
    words = keras.layers.TextVectorization(standardize=None, output_sequence_length=WORDS)
    words.adapt(captions(train))
    known = set(words.get_vocabulary())
    rows = [row for row, caption in enumerate(captions(test)) if known.issuperset(caption.split())]
    images, texts = test.images[rows], np.array(captions(test))[rows]

    results = {}
    for name, loss in LOSSES.items():
        models = [trained(loss(), train, words, seed, options) for seed in options.seeds]
        results[name] = [measured(model, images, texts, words) for model in models]
        models[0].save(options.output / f"{name}.keras")
    record = {"rows": len(rows), "captions": len(set(texts)), "seeds": options.seeds, **tfdml.environment()}
    record |= {"seconds": round(time.time() - begin, 1), "results": results}
    (options.output / "results.json").write_text(json.dumps(record, indent=1))
    for name, runs in results.items():
        for key in runs[0]:
            values = 100 * np.array([run[key] for run in runs])
            print(f"{name:10}{key:20}{values.mean():.1f} [{values.min():.1f}, {values.max():.1f}] %")
    print(f"{len(rows)} images, {record['captions']} captions, {record['seconds']:.0f} seconds; see {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("runs/captions"))
    parser.add_argument("--captions", type=Path, help="table with the columns path and caption")
    parser.add_argument("--preset", help="of CLIP, SigLIP or MetaCLIP of KerasHub; none: random weights")
    parser.add_argument("--steps", type=int, default=1000, help="of the training on --captions (default: 1000)")
    parser.add_argument("--rate", type=float, help="learning rate (default: 1e-5 from a preset, else 1e-3)")
    parser.add_argument("--quick", action="store_true", help="60 classes, one seed, 10 training steps")
    options = parser.parse_args()
    options.seeds = [0] if options.quick else [0, 1, 2]
    return options


def captions(data):
    """The description of each image."""
    names = [unicodedata.name(character).lower() for character in data.class_names]
    styles = [" ".join(sorted(style_of(face), key=list(STYLES)[::-1].index)) for face in data.face_names]
    return [f"{styles[face]} {names[label]}" for face, label in zip(data.faces, data.labels, strict=True)]


def style_of(face):
    """The words of STYLES that describe a typeface."""
    words = {word for word, marks in STYLES.items() if any(mark in face for mark in marks)}
    return words - {"sans-serif"} if "monospaced" in words else words


def trained(loss, train, words, seed, options):
    """Two towers after training."""
    keras.utils.set_random_seed(seed)
    model = tfdml.models.TwoTowers(image_network(), text_network(words.vocabulary_size()))
    steps, batch_size = (10, 32) if options.quick else (600, 128)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps - steps // 10, warmup_target=3e-3, warmup_steps=steps // 10
    )
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    texts, numbers = np.unique(captions(train), return_inverse=True)  # one number per caption: copies are positives
    tokens = np.asarray(words(texts))[numbers]
    batches = tfdml.samplers.UniformSampler(batch_size=batch_size, seed=seed).batches((train.images, tokens), numbers)
    print(f"Training: {loss.name}, seed {seed}", flush=True)
    model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=2)
    return model


def image_network():
    """A small network from an image to a unit vector."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    return tfdml.models.EmbeddingModel(images, tfdml.models.plain_cnn(images, dim=DIM))


def text_network(vocabulary, length=WORDS, width=64):
    """A transformer of one layer, from word numbers (0 is padding) to a unit vector."""
    words = keras.Input((length,), dtype="int64")
    x = keras.layers.Embedding(vocabulary, width, mask_zero=True)(words)
    x = x + keras.layers.Embedding(length, width)(keras.ops.arange(length))
    x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(4, width // 4)(x, x))
    x = keras.layers.LayerNormalization()(x + keras.layers.Dense(width)(keras.layers.Dense(2 * width, "gelu")(x)))
    is_word = keras.ops.cast(words != 0, x.dtype)[..., None]
    mean = keras.ops.sum(x * is_word, axis=1) / keras.ops.sum(is_word, axis=1)
    return tfdml.models.EmbeddingModel(words, keras.layers.UnitNormalization()(keras.layers.Dense(DIM)(mean)))


def measured(model, images, texts, words):
    """Recall of the caption of each image among the captions of all images."""
    gallery, numbers = np.unique(texts, return_inverse=True)
    image_tower, text_tower = model.towers
    queries = image_tower.predict(images, verbose=0)
    embedded = text_tower.predict(np.asarray(words(gallery)), verbose=0)
    result = tfdml.metrics.retrieval(
        queries, numbers, gallery=embedded, gallery_labels=np.arange(len(gallery)), k=(1, 10), ties="expected"
    )
    return {"recall@1": result["recall@1"], "recall@10": result["recall@10"], "chance": 1 / len(gallery)}


def tune(options):
    """Train two towers on the pairs of a table, and print what held-out texts and images find before and after."""
    paths, image_of, texts = read(options.captions)
    subjects, subject_of = subjects_of(image_of, texts)
    keras.utils.set_random_seed(0)
    model = tfdml.models.TwoTowers.from_preset(options.preset) if options.preset else from_scratch(texts)
    tokens = model.tokenizer(texts)
    view = tfdml.datasets.Preprocessing.for_model(model.towers[0])
    images = tfdml.datasets.LabeledSet(
        paths=paths, labels=subjects, class_names=tuple(map(str, range(len(paths)))), load=view
    )
    is_out = subject_of % 10 == 0
    held_out = images.take(np.flatnonzero(subjects % 10 == 0)), tokens[is_out], subject_of[is_out]
    before = found(model, *held_out)
    train(model, (paths[image_of[~is_out]], tokens[~is_out]), subject_of[~is_out], view, options)
    after = found(model, *held_out)
    model.save(options.output / "pair.keras")
    for name, value in after.items():
        print(f"{name:28}{100 * before[name]:5.1f} % before, {100 * value:5.1f} % after the training")
    record = {"before": before, "after": after, "preset": options.preset, **tfdml.environment()}
    (options.output / "results.json").write_text(json.dumps(record, indent=1))


def read(table):
    """The paths of the images, the row of the image of each caption, and the captions."""
    with open(table, newline="", encoding="utf-8-sig") as file:
        rows = [(str(table.parent / row["path"]), row["caption"].strip()) for row in csv.DictReader(file)]
    paths, image_of = np.unique([path for path, _ in rows], return_inverse=True)
    return paths, image_of, [text for _, text in rows]


def subjects_of(image_of, texts):
    """The subject of each image and of each caption: images that share a caption, directly or through others."""
    _, text_of = np.unique(texts, return_inverse=True)
    edges = np.ones(len(texts)), (image_of, image_of.max() + 1 + text_of)
    _, subjects = connected_components(coo_array(edges, shape=2 * (image_of.max() + text_of.max() + 2,)))
    return subjects[: image_of.max() + 1], subjects[image_of]


def from_scratch(texts, size=64):
    """Two small towers of random weights, and a tokenizer of the words of some texts."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]"]))
    length = max(WORDS, *(len(each.ids) for each in words.encode_batch(texts)))
    words.enable_padding(length=length)
    tokenizer = tfdml.models.Tokenizer(words.to_str())
    pixels = keras.Input((size, size, 3), name="images")
    images = tfdml.models.EmbeddingModel(pixels, tfdml.models.residual_cnn(pixels, dim=DIM))
    network = text_network(tokenizer.vocabulary_size, length)
    return tfdml.models.TwoTowers(images, network, tokenizer=tokenizer, image_fit="crop")


def train(model, pairs, subject_of, view, options):
    """Train both towers; a batch has one pair of each of several subjects."""
    scalar = tfdml.layers.LearnedScalar
    if model.bias is not None:
        loss = tfdml.losses.SigmoidLoss(scale=scalar(model.scale, log=True), bias=scalar(model.bias))
    else:
        loss = tfdml.losses.CLIPLoss(temperature=scalar(1 / (model.scale or 1 / 0.07), log=True))
    steps, rate = (5 if options.quick else options.steps), options.rate or (1e-5 if options.preset else 1e-3)
    model.compile(keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(rate, steps)), loss=loss)
    subjects = min(64, len(np.unique(subject_of)))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=subjects, examples_per_class=1, seed=0)
    batches = sampler.batches(pairs, subject_of, load=lambda pair: (view(pair[0]), pair[1]))
    model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=2)
    first, *others = (float(layer.weight) for layer in model.loss.layers)  # the logarithm of temperature or scale
    model.scale = float(np.exp(first if others else -first))
    model.bias = others[0] if others else None


def found(model, images, tokens, subject_of):
    """Recall@k of held-out images for texts, and of texts for images."""
    towers, found = model.towers, {}
    x, t = tfdml.models.embed(towers[0], images), towers[1].predict(tokens, verbose=0)
    sides = {"text to image": (t, subject_of, x, images.labels), "image to text": (x, images.labels, t, subject_of)}
    for name, (queries, labels, gallery, gallery_labels) in sides.items():
        k = [k for k in (1, 5, 10) if k <= len(gallery)]
        pairs = {"gallery": gallery, "gallery_labels": gallery_labels}
        values = tfdml.metrics.retrieval(queries, labels, **pairs, k=k, ties="expected")
        found |= {f"{name}, Recall@{each}": values[f"recall@{each}"] for each in k}
    return found


if __name__ == "__main__":
    main()
