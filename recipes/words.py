"""Photographs that answer words: a head on a sentence encoder leads captions into the space of a trained run.

    tfdml train photos --out run
    python recipes/words.py --run run --captions captions.csv --encoder all-MiniLM-L6-v2    # writes run/text
    tfdml search run run/index --text "a red kangaroo" "a green car"
    python recipes/words.py --quick    # a smoke test, under a minute: glyphs, and an encoder of random weights

`captions.csv` has the columns path, relative to its folder, and caption; an image may have several rows. The encoder
is the folder of a BERT that KerasHub reads. Encoder and network of images stay as they are: a linear head on the mean
of the outputs of the encoder learns by `CLIPLoss`. Images that share a caption, directly or through others, are one
subject, with all its captions. One in ten subjects is held out, and the recipe prints how often one of its captions
finds one of its images first. Needs `pip install "tfdml[photos,hub]"`.
"""

import argparse
import csv
from pathlib import Path

import keras
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import tfdml

STEPS, BATCH, RATE = 400, 64, 1e-3


def main():
    """Tell the story."""
    options = arguments()
    if options.quick:
        options.run, options.captions, options.encoder = quick_files(options.output)
    paths, image_of, captions = read(options.captions)
    subjects, subject_of = subjects_of(image_of, captions)
    card, index = tfdml.zoo.card(options.run), tfdml.search.load(Path(options.run) / "index")
    images = tfdml.datasets.LabeledSet(
        paths=paths, labels=subjects, class_names=tuple(map(str, range(len(paths)))), load=card.preprocessing
    )
    vectors = np.asarray(tfdml.models.embed(tfdml.zoo.load(options.run), images))
    texts = np.asarray(tfdml.models.TextModel(options.encoder)(captions))
    is_held_out = subject_of % 10 == 0
    head = new_head(texts[~is_held_out], vectors.shape[1])
    pairs = texts[~is_held_out], vectors[image_of[~is_held_out]]
    train(head, pairs, subject_of[~is_held_out], options.steps)
    show(head.predict(texts[is_held_out], verbose=0), subject_of[is_held_out], vectors, subjects)
    tfdml.models.TextModel(options.encoder, head, fingerprint=index.fingerprint).save(Path(options.run) / "text")
    print(f"Search in words: tfdml search {options.run} {options.run}/index --text 'a red kangaroo'")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", help="folder of a run of tfdml train")
    parser.add_argument("--captions", type=Path, help="table with the columns path and caption")
    parser.add_argument("--encoder", help="folder of a BERT")
    parser.add_argument("--output", type=Path, default=Path("runs/words"), help="folder of --quick")
    parser.add_argument("--quick", action="store_true", help="a run of glyphs, random weights, 5 steps")
    options = parser.parse_args()
    options.steps = 5 if options.quick else STEPS
    if not options.quick and None in (options.run, options.captions, options.encoder):
        parser.error("--run, --captions and --encoder, or --quick")
    return options


def read(table):
    """The paths of the images, the row of the image of each caption, and the captions."""
    with open(table, newline="", encoding="utf-8-sig") as file:
        rows = [(str(table.parent / row["path"]), row["caption"].strip()) for row in csv.DictReader(file)]
    paths, image_of = np.unique([path for path, _ in rows], return_inverse=True)
    return paths, image_of, [caption for _, caption in rows]


def subjects_of(image_of, captions):
    """The subject of each image and of each caption."""
    texts, text_of = np.unique(captions, return_inverse=True)
    count = image_of.max() + 1
    shared = coo_array((np.ones(len(captions)), (image_of, count + text_of)), shape=2 * (count + len(texts),))
    _, subjects = connected_components(shared, directed=False)
    return subjects[:count], subjects[image_of]


def new_head(texts, dim):
    """A linear network from sentence vectors, scaled by `texts`, to unit vectors."""
    scale = keras.layers.Normalization()
    scale.adapt(texts)
    inputs = keras.Input(texts.shape[1:])
    outputs = keras.layers.Dense(dim)(keras.layers.Dropout(0.2)(scale(inputs)))
    return tfdml.models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(outputs))


def train(head, pairs, subject_of, steps):
    """Train the head so that each text is near its image; a batch has one pair of each of several subjects."""
    side = keras.Input(pairs[1].shape[1:])
    images = tfdml.models.EmbeddingModel(side, keras.layers.UnitNormalization()(side))
    model = tfdml.models.TwoTowers(head, images)
    model.compile(keras.optimizers.Adam(RATE), loss=tfdml.losses.CLIPLoss())
    subjects_per_batch = min(BATCH, len(np.unique(subject_of)))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=subjects_per_batch, examples_per_class=1, seed=0)
    model.fit(sampler.batches(pairs, subject_of), steps_per_epoch=steps, shuffle=False, verbose=0)


def show(texts, subject_of, vectors, subjects):
    """Print how often a held-out text finds an image of its subject first, among all images."""
    found = tfdml.metrics.retrieval(texts, subject_of, gallery=vectors, gallery_labels=subjects, k=1, per_query=True)
    mean = 100 * found["recall@1"].mean()
    low, high = (100 * bound for bound in tfdml.metrics.class_interval(found["recall@1"], subject_of))
    print(f"{len(texts)} held-out captions, {len(vectors)} images: Recall@1 {mean:.1f} [{low:.1f}, {high:.1f}] %")


def quick_files(folder):
    """A run on glyphs, a table of their names, and a BERT of random weights that knows these names."""
    import keras_hub

    photos, run = folder / "photos", folder / "run"
    glyphs = tfdml.datasets.glyphs()[0].select_classes(range(20))
    lines = ["path,caption"]
    for row, label in enumerate(glyphs.labels):
        path = photos / f"{label:02}" / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        keras.utils.save_img(path, glyphs.images[row], scale=False)
        lines.append(f"{path.relative_to(folder)},glyph {label}")
    (folder / "captions.csv").write_text("\n".join(lines))
    tfdml.training.train(photos, run, quick=True, backbone="residual", verbose=0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "glyph", *map(str, range(20))]
    keras_hub.models.BertTokenizer(vocabulary=words).save_to_preset(str(folder / "bert"))
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 16}
    keras_hub.models.BertBackbone(vocabulary_size=len(words), **sizes).save_to_preset(str(folder / "bert"))
    return run, folder / "captions.csv", folder / "bert"


if __name__ == "__main__":
    main()
