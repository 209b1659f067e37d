"""Networks that stand in for large ones."""

import functools
import io

import keras
import numpy as np


def without_download(build):
    """A network of keras.applications of one convolution, whose "imagenet" weights are random."""

    @functools.wraps(build)
    def network(*, include_top, weights, input_shape):
        images = keras.Input(input_shape)
        model = keras.Model(images, keras.layers.Conv2D(4, 7, strides=7, activation="relu")(images))
        if weights not in (None, "imagenet"):
            model.load_weights(weights)
        return model

    return network


def write_sentence_encoder(folder, words):
    """Write a BERT of random weights that knows some words, in the form of KerasHub."""
    import keras_hub

    keras.utils.set_random_seed(0)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words.split()]
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8}
    keras_hub.models.BertBackbone(vocabulary_size=len(pieces), **sizes).save_to_preset(str(folder))
    keras_hub.models.BertTokenizer(vocabulary=pieces, lowercase=True).save_to_preset(str(folder))
    return folder


def word_tokenizer(words, length=None):
    """The content of a tokenizer.json that knows some words in lower case, beside [PAD] and [UNK]."""
    import tokenizers

    names = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *words.split()])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, "[UNK]"))
    made.normalizer, made.pre_tokenizer = tokenizers.normalizers.Lowercase(), tokenizers.pre_tokenizers.Whitespace()
    if length is not None:
        made.enable_padding(length=length)
    return made.to_str()


def write_static_vectors(folder, words, dim=8):
    """Write a table of random vectors and a tokenizer of some words, in the form of model2vec."""
    from safetensors.numpy import save_file

    rows = 2 + len(words.split())
    table = np.random.default_rng(0).normal(size=(rows, dim)).astype("float16")
    folder.mkdir()
    save_file({"embeddings": table}, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(word_tokenizer(words))
    return folder


WORDS = ["a", "photo", "of", "red", "bird", "green", "car", "on", "the", "tree", "with", "two", "wings", "and", "1"]
WORDS += ["blue", "vögel"]


def write_image_text_preset(folder, kind="siglip", size=16, length=16):
    """Write a preset of random weights of "clip", "siglip", "siglip2" or "metaclip2"; returns its backbone."""
    import keras_hub

    keras.utils.set_random_seed(0)
    models = keras_hub.models
    tokenizer = _tokenizer(models, kind)
    shape = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    name = {"clip": "CLIP", "metaclip2": "MetaCLIP2"}.get(kind, "SigLIP")
    build = {part: getattr(models, f"{name}{part}") for part in ("VisionEncoder", "TextEncoder", "Backbone")}
    images = build["VisionEncoder"](image_shape=(size, size, 3), patch_size=8, **shape)
    words = tokenizer.vocabulary_size()
    texts = build["TextEncoder"](vocabulary_size=words, embedding_dim=8, max_sequence_length=length, **shape)
    options = {} if name == "SigLIP" else {"projection_dim": 6}
    network = build["Backbone"](vision_encoder=images, text_encoder=texts, **options)
    network.set_weights([weight + _noise(weight) for weight in network.get_weights()])  # no bias of zeros
    network.save_to_preset(str(folder))
    tokenizer.save_to_preset(str(folder))
    pixels = {"scale": [0.01, 0.02, 0.03], "offset": [-1.0, -0.5, 0.5], "crop_to_aspect_ratio": name != "SigLIP"}
    converter = getattr(keras_hub.layers, f"{name}ImageConverter")(image_size=(size, size), **pixels)
    converter.save_to_preset(str(folder))
    return network


def _noise(weight):
    is_float = weight.dtype.kind == "f"
    return np.random.default_rng(0).normal(0, 0.1, weight.shape).astype(weight.dtype) if is_float else 0 * weight


def _tokenizer(models, kind):
    """A tokenizer that knows `WORDS`, or their letters."""
    if kind == "clip":
        letters = sorted({letter for word in WORDS for letter in word if letter.isascii()})
        pieces = [*letters, *(f"{letter}</w>" for letter in letters), "re", "red</w>", "bi", "<|startoftext|>"]
        names = {piece: number for number, piece in enumerate([*pieces, "<|endoftext|>"])}
        return models.CLIPTokenizer(vocabulary=names, merges=["r e", "re d</w>", "b i"])
    import sentencepiece

    proto, rng = io.BytesIO(), np.random.default_rng(0)
    sentences = [" ".join(rng.choice(WORDS, 6)) for _ in range(200)]
    marks = {
        "siglip": {"pad_id": -1, "bos_id": -1, "eos_id": 1, "unk_id": 2, "control_symbols": ["<s>"]},
        "siglip2": {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "eos_piece": "<eos>", "bos_piece": "<bos>"},
        "metaclip2": {"unk_id": 0, "bos_id": 1, "eos_id": 2},
    }[kind]
    if kind == "siglip2":  # as Gemma's: byte pairs, no blank at the beginning, and texts as they are
        marks |= {"model_type": "bpe", "byte_fallback": True, "add_dummy_prefix": False, "vocab_size": 340}
        marks |= {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    options = {"vocab_size": 50, "hard_vocab_limit": False, "minloglevel": 2} | marks
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=proto, **options)
    name = {"siglip": "SigLIPTokenizer", "siglip2": "GemmaTokenizer", "metaclip2": "MetaCLIP2Tokenizer"}[kind]
    return getattr(models, name)(proto=proto.getvalue())
