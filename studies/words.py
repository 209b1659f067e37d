"""Photographs that nobody trained on, found by words: a sentence encoder that has read, random words and class names.

    python -m studies.words --stamps FOLDER --encoder FOLDER --wordllama FOLDER   # five minutes of one core
    python -m studies.words --quick            # a smoke test: drawn objects, random texts, two steps

`studies.stamps` has the objects, their photographs and the split. Each object of the package has a description,
such as "A red kangaroo."; its class name is the name of its file. The images are features of EfficientNetLite0, the
texts features of all-MiniLM-L6-v2 (Apache 2.0; the folder with its config.json and model.safetensors, which KerasHub
reads), both frozen. Static vectors are the table of WordLlama 0.4.0, 256 numbers for each token (the folder `wordllama`
of its wheel, MIT; it was trained from the token tables of language models such as Llama 2, which have licenses of
their own): a text is the mean of its rows, by NumPy. Two linear heads learn one space by the loss of CLIP, from 160
objects. The rate and the number of steps are chosen on the 80 objects of the validation part, by MAP@R of images for
texts. Then five seeds are measured on the 80 objects of the test. Random words are a random vector for each word, the
mean of which is the text.
"""

import shutil
import tempfile
from pathlib import Path

import keras
import numpy as np
import safetensors.numpy

import tfdml
from recipes import things
from studies import pages, runner, stamps

ROWS, PAGE = pages.RESULTS / "words.csv", pages.ROOT / "docs" / "two-towers.md"
RATES, STEPS, SEEDS, DIM, BATCH = (1e-3, 3e-3, 1e-2), (100, 400), range(5), 128, 64
TEXTS = {
    "description, sentence encoder": ("description", "encoder"),
    "class name, sentence encoder": ("class name", "encoder"),
    "description, static vectors": ("description", "static"),
    "description, random words": ("description", "random"),
}


def description(path):
    """The English description of an object, the first line of the text beside its picture or the one it mirrors."""
    text = path.with_name(path.stem.removesuffix("_mirror") + ".txt")
    return text.read_text(encoding="utf-8").splitlines()[0].strip()


def class_name(name):
    """The words of a file name: "animals/wild/red_kangaroo" is "red kangaroo"."""
    return Path(name).name.replace("_", " ").replace("-", " ")


def random_vectors(texts, dim=384):
    """The mean of a random vector for each word of each text, `(texts, dim)`."""
    words = [text.lower().strip(".").split() for text in texts]
    known = {word: i for i, word in enumerate(sorted({word for text in words for word in text}))}
    vectors = np.random.default_rng(0).normal(size=(len(known), dim))
    return np.stack([np.mean([vectors[known[word]] for word in text], axis=0) for text in words])


def static_vectors(package):
    """The table of WordLlama as a text model: the form of model2vec has another name for it."""
    with tempfile.TemporaryDirectory() as name:
        folder, config = Path(name), "l2_supercat_tokenizer_config.json"
        table = safetensors.numpy.load_file(package / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        safetensors.numpy.save_file({"embeddings": table}, folder / "model.safetensors")
        shutil.copyfile(package / "tokenizers" / config, folder / "tokenizer.json")
        return tfdml.models.TextModel(folder)


def parts(images, texts):
    """name -> (features of the images, of the text of each image, the number of its text), scaled by the first part."""
    numbers = np.unique([text for of_part in texts.values() for text in of_part["text"]], return_inverse=True)[1]
    found, begin = {}, 0
    for name, of_part in texts.items():
        count = len(of_part["text"])
        rows = np.repeat(np.arange(count), stamps.VIEWS)
        found[name] = images[name], of_part["vectors"][rows], numbers[begin : begin + count][rows]
        begin += count
    first = found["train"]
    centers = [(x.mean(axis=0), x.std(axis=0) + 1e-6) for x in first[:2]]
    return {
        name: (*((x - mean) / spread for x, (mean, spread) in zip(two, centers, strict=True)), number)
        for name, (*two, number) in found.items()
    }


def trained(data, rate, steps, seed):
    """Two linear heads after training."""
    images, texts, numbers = data["train"]
    keras.utils.set_random_seed(seed)
    model = tfdml.models.TwoTowers(*(head(x.shape[1]) for x in (images, texts)))
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(keras.optimizers.Adam(schedule), loss=tfdml.losses.CLIPLoss(), jit_compile=False)
    sampler = tfdml.samplers.PKSampler(
        classes_per_batch=min(BATCH, len(set(numbers.tolist()))), examples_per_class=1, seed=seed
    )
    model.fit(
        sampler.batches((images.astype("float32"), texts.astype("float32")), numbers),
        steps_per_epoch=steps,
        shuffle=False,
        verbose=0,
    )
    return model


def head(features):
    """A linear layer to unit vectors."""
    inputs = keras.Input((features,))
    x = keras.layers.Dropout(0.2)(inputs)
    return tfdml.models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(keras.layers.Dense(DIM)(x)))


def measured(model, part):
    """Images for each text, and texts for each image: Recall@1, and MAP@R of images; per text, over its images."""
    images, texts, numbers = part
    _, first, text_of = np.unique(numbers, return_index=True, return_inverse=True)
    image_tower, text_tower = model.towers
    x, t = image_tower.predict(images, verbose=0), text_tower.predict(texts[first], verbose=0)
    kinds = np.arange(len(first))
    by_text = tfdml.metrics.retrieval(t, kinds, gallery=x, gallery_labels=text_of, k=(1,), per_query=True)
    by_image = tfdml.metrics.retrieval(x, text_of, gallery=t, gallery_labels=kinds, k=(1,), per_query=True)
    of_images = np.bincount(text_of, by_image["recall@1"]) / np.bincount(text_of)
    return {"images@1": by_text["recall@1"], "images map@r": by_text["map@r"], "texts@1": of_images}


def rows(kinds):
    """A row for each kind of text: chosen settings, and means over seeds with intervals over the texts of the test."""
    found = []
    for name, data in kinds.items():
        trials = [(rate, steps) for rate in RATES for steps in STEPS]
        scores = [measured(trained(data, *trial, 0), data["validation"])["images map@r"].mean() for trial in trials]
        rate, steps = trials[int(np.argmax(scores))]
        runs = [measured(trained(data, rate, steps, seed), data["test"]) for seed in SEEDS]
        row = {"text": name, "rate": rate, "steps": steps, "seeds": len(SEEDS)}
        for key in runs[0]:
            by_text = np.mean([run[key] for run in runs], axis=0)
            low, high = tfdml.metrics.class_interval(by_text, np.arange(len(by_text)))
            row |= {key: by_text.mean(), f"{key} low": low, f"{key} high": high}
        found.append(row | {"texts": len(by_text), **tfdml.environment("keras-hub")})
        print(row, flush=True)
    return found


def kinds_of_stamps(root, encoder, package):
    """The data of each kind of text, from the folders of the stamps, of the encoder and of WordLlama."""
    paths = sorted(path for path in root.rglob("*.png") if stamps.is_photograph(path.relative_to(root)))
    written = {path.relative_to(root).with_suffix("").as_posix(): description(path) for path in paths}
    split = stamps.parts(root)
    network = things.network(dim=None, normalize=False)
    images = {name: tfdml.models.embed(network, part) for name, part in split.items()}
    texts = {
        "description": {name: [written[each] for each in part.class_names] for name, part in split.items()},
        "class name": {name: list(map(class_name, part.class_names)) for name, part in split.items()},
    }
    ways = {"encoder": tfdml.models.TextModel(encoder), "static": static_vectors(package), "random": random_vectors}
    return {name: parts(images, vectors_of(texts[of], ways[way])) for name, (of, way) in TEXTS.items()}


def vectors_of(texts, way):
    """part -> its texts and their vectors, which one call makes."""
    every = way([text for of_part in texts.values() for text in of_part])
    ends = np.cumsum([len(of_part) for of_part in texts.values()])[:-1]
    return {name: {"text": texts[name], "vectors": x} for name, x in zip(texts, np.split(every, ends), strict=True)}


def table(found):
    """The rows as Markdown."""

    def cell(row, key):
        mean, low, high = (100 * float(row[each]) for each in (key, f"{key} low", f"{key} high"))
        return f"{mean:.1f} [{low:.1f}, {high:.1f}]"

    keys = ("images@1", "images map@r", "texts@1")
    body = [[row["text"], *(cell(row, key) for key in keys)] for row in found]
    return runner.markdown(["texts", "text to image, Recall@1", "MAP@R", "image to text, Recall@1"], body)


def main(arguments=None):
    """Measure the stamps; drawn objects and random words with `--quick`, which writes nothing."""
    stamps_folder = {"type": Path, "help": "the folder stamps of tuxpaint-stamps-default"}
    encoder = {"type": Path, "help": "the folder of all-MiniLM-L6-v2"}
    package = {"type": Path, "help": "the folder wordllama of its wheel"}
    given = runner.options_of(__doc__, arguments, stamps=stamps_folder, encoder=encoder, wordllama=package)
    if given.quick:
        images = {name: part.images.mean(axis=(1, 2)) for name, part in stamps.parts_of_shapes().items()}
        texts = {name: [f"thing {i}" for i in range(8)] for name in stamps.OBJECTS}
        data = parts(images, vectors_of(texts, random_vectors))
        return print(measured(trained(data, 1e-3, 2, 0), data["test"]))
    if None in (given.stamps, given.encoder, given.wordllama):
        raise SystemExit("--stamps, --encoder or --wordllama is missing.")
    return runner.write_rows(ROWS, rows(kinds_of_stamps(given.stamps, given.encoder, given.wordllama)))


if __name__ == "__main__":
    main()
