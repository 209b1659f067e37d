"""Entries of the zoo from presets of KerasHub: what to run where there is a network, and what to check.

    python recipes/presets.py siglip2-base dinov2-small    # downloads, measures, writes savedmodels/NAME
    python recipes/presets.py products --preset hf://OWNER/MODEL --license Apache-2.0    # another preset
    tfdml zoo check siglip2-base                           # the files are whole
    tfdml embed photos photos.parquet --model siglip2-base
    tfdml search siglip2-base photos.parquet --text "a red kangaroo"
    python recipes/presets.py --quick                      # a preset of random weights, made here

Needs `pip install "tfdml[photos,hub,samples]"`. A preset of images and texts becomes the network of its images, with
its text tower in the folder `text` of the entry; one of images alone its features, with the pooling below. The card has
retrieval of the test part of photo patches, which no preset was tuned on.

What to check: the recipe searches eight well-known photographs by their descriptions. A real pair of towers finds all
eight; fewer mean that pixels, case, marks or padding are not those of the training. A license is as the page of the
weights stated it when this was written: read it again. KerasHub 0.32 has no preset for product photographs; a
fine-tuned SigLIP in its form, such as one that `keras_hub.models.SigLIPBackbone` saved, is the third command.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import keras
import numpy as np

import tfdml


@dataclass(frozen=True)
class Start:
    """A preset, the license of its weights, and how features of images alone are pooled."""

    preset: str
    license: str
    pooling: str = ""


STARTS = {
    "siglip2-base": Start("siglip2_base_patch16_224", "Apache-2.0. huggingface.co/google/siglip2-base-patch16-224"),
    "dinov2-small": Start("dinov2_small", "Apache-2.0. huggingface.co/facebook/dinov2-small", "token"),
}
DESCRIPTIONS = {
    "astronaut": "an astronaut in front of a flag",
    "chelsea": "the face of a cat",
    "coffee": "a cup of coffee",
    "china": "a temple with a curved roof",
    "flower": "a flower",
    "rocket": "a rocket at night",
    "coins": "old coins",
    "motorcycle_left": "a motorcycle",
}
LIMITS = "As its preset: read the card of the weights. It was not trained for this package, and nothing was chosen."


def main():
    """Write the entries."""
    options = arguments()
    for name in options.names:
        start = STARTS.get(name) if options.preset is None else Start(options.preset, options.license, options.pooling)
        write(name, start, options)


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of an entry: {', '.join(STARTS)}, or with --preset")
    parser.add_argument("--preset", help="of KerasHub, or its folder")
    parser.add_argument("--license", help="of the weights of --preset, an SPDX identifier")
    parser.add_argument("--pooling", default="", help="of a preset of images alone, such as token or avg")
    parser.add_argument("--output", type=Path, default=Path("savedmodels"), help="folder of entries")
    parser.add_argument("--quick", action="store_true", help="a preset of random weights, and 20 places")
    options = parser.parse_args()
    if options.quick and options.preset is None:
        options.names, options.license = ["random"], "CC0-1.0"
        options.preset = str(random_preset(options.output / "preset"))
    if options.preset is None and not set(options.names) <= set(STARTS):
        parser.error(f"NAME: one of {', '.join(STARTS)}, or --preset and --license")
    if options.preset is not None and not (options.license and len(options.names) == 1):
        parser.error("--preset needs --license and one NAME")
    return options


def write(name, start, options):
    """Measure a preset, write its entry with its text tower, and print its card and the check."""
    pair = None if start.pooling else tfdml.models.TwoTowers.from_preset(start.preset)
    options_of_images = {"dim": None, "pooling": start.pooling}
    images = tfdml.models.from_backbone(start.preset, **options_of_images) if pair is None else pair.towers[0]
    view = tfdml.datasets.Preprocessing.for_model(images)
    (places,) = tfdml.datasets.photo_patches(splits=("test",))
    places = places.select_classes(range(20)) if options.quick else places
    entry = tfdml.zoo.save(
        images,
        name,
        replace(places, load=view),
        summary=f"The preset {start.preset} of KerasHub{'' if pair is None else ', which images and texts search'}.",
        recipe="recipes/presets.py",
        command=f"python recipes/presets.py {name}",
        seed=0,
        license=start.license,
        training={"start": start.preset, "steps": 0},
        selection="Nothing was chosen.",
        limitations=LIMITS,
        preprocessing=view,
        root=options.output,
    )
    print(tfdml.zoo.card(name, root=options.output))
    if pair is not None:
        fingerprint = tfdml.models.fingerprint(images, view)
        tfdml.models.TextModel(pair, fingerprint=fingerprint).save(entry / "text")
        print(check(tfdml.zoo.load(name, root=options.output), tfdml.models.TextModel.load(entry / "text"), view))


def check(images, texts, view):
    """Which photographs their descriptions find, by the files of the entry."""
    pixels = np.stack([np.asarray(view(tfdml.datasets.photograph(name))) for name in DESCRIPTIONS])
    cosines = texts(list(DESCRIPTIONS.values())) @ images.predict(pixels, verbose=0).T
    found = np.array(list(DESCRIPTIONS))[np.argmax(cosines, axis=1)]
    lines = [f"  {text!r}: {name}" for text, name in zip(DESCRIPTIONS.values(), found, strict=True)]
    right = np.count_nonzero(found == np.array(list(DESCRIPTIONS)))
    return "\n".join([f"{right} of {len(found)} descriptions find their photograph:", *lines])


def random_preset(folder):
    """Write a SigLIP of random weights that knows the words of the descriptions."""
    import io

    import keras_hub
    import sentencepiece

    proto, sizes = io.BytesIO(), {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    marks = {"pad_id": -1, "bos_id": -1, "eos_id": 1, "unk_id": 2, "control_symbols": ["<s>"], "vocab_size": 60}
    sentences = iter(20 * list(DESCRIPTIONS.values()))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_writer=proto, hard_vocab_limit=False, minloglevel=2, **marks
    )
    tokenizer = keras_hub.models.SigLIPTokenizer(proto=proto.getvalue())
    keras.utils.set_random_seed(0)
    texts = keras_hub.models.SigLIPTextEncoder(tokenizer.vocabulary_size(), embedding_dim=8, **sizes)
    images = keras_hub.models.SigLIPVisionEncoder(image_shape=(32, 32, 3), patch_size=8, **sizes)
    network = keras_hub.models.SigLIPBackbone(vision_encoder=images, text_encoder=texts)
    pixels = {"scale": 1 / 127.5, "offset": -1.0, "crop_to_aspect_ratio": False}
    converter = keras_hub.layers.SigLIPImageConverter(image_size=(32, 32), **pixels)
    for saved in (network, tokenizer, converter):
        saved.save_to_preset(str(folder))
    return folder


if __name__ == "__main__":
    main()
