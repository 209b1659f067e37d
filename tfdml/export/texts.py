"""The text side of a model for other programs: a network of token numbers, and its tokenizer's file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml._core.atomic import as_writable_path, atomic_write, require_replaceable
from tfdml._core.checks import require
from tfdml._core.checksums import listed_files, require_same_model, write_checksums
from tfdml._core.optional import environment, tf
from tfdml.embedding.text_encoders import StaticVectors, TextTower
from tfdml.embedding.texts import TextModel
from tfdml.export.graph_index import GraphIndex
from tfdml.export.graph_search.search_option import Search, as_search
from tfdml.export.runtimes.onnx import OPSETS, onnx_bytes
from tfdml.export.runtimes.pixel_model import PixelModel
from tfdml.export.saved_model import require_tensorflow
from tfdml.typing import FilePath, VectorIndex

FACTS, TOKENIZER, ONNX, _SAVED_MODEL = "texts.json", "tokenizer.json", "texts.onnx", "saved_model"
_FORMATS = ("onnx", "savedmodel")
_OF_PAGE = {  # the parts of a tokenizer.json that page/words.js has
    "normalizer": (None, "Lowercase", "BertNormalizer"),
    "pre_tokenizer": ("Whitespace", "BertPreTokenizer"),
    "model": ("WordLevel", "WordPiece"),
}


def texts(
    model: TextModel,
    path: FilePath,
    *,
    formats: Sequence[str] = _FORMATS,
    index: VectorIndex | None = None,
    search: Search | str | None = None,
    other_model: bool = False,
) -> Path:
    """Write a text model as `texts.onnx` and as `saved_model`, with the `tokenizer.json` that makes its input.

    Both take `tokens`, `(batch, length)` int32, and return `embedding`, `(batch, dim)` float32; with an index `ids`,
    `scores` and `payload`, as `onnx` has them for images. No runtime has the operations of a tokenizer: the library
    tokenizers, and its relatives for JavaScript, Rust and others, make the numbers of a text from `tokenizer.json`. It
    holds case, marks and padding of a text tower. For static vectors, leave out special tokens, and fill rows up with
    the number `padding` of `texts.json`, which also has the fingerprint, and the sizes.

    On PyTorch, a text tower is written as ONNX, without an index.

    See also: `onnx` and `saved_model` for the images.

    Example: towers of images of 1 x 2 pixels, and of texts of a word.

        >>> import tokenizers
        >>> words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "bird": 1}, "<pad>"))
        >>> words.enable_padding(length=2, pad_token="<pad>")
        >>> pixels, tokens = keras.Input((1, 2, 1)), keras.Input((2,), dtype="int32")
        >>> images = keras.Model(pixels, keras.layers.Flatten()(pixels))
        >>> texts = keras.Model(tokens, keras.layers.Flatten()(keras.layers.Embedding(2, 1)(tokens)))
        >>> towers = tfdml.models.TwoTowers(images, texts, tokenizer=tfdml.models.Tokenizer(words.to_str()))
        >>> folder = tfdml.export.texts(tfdml.models.TextModel(towers), "texts", formats=["onnx"])
        >>> sorted(path.name for path in folder.iterdir())
        ['SHA256SUMS', 'texts.json', 'texts.onnx', 'tokenizer.json']

    Args:
        model: of a text tower, of a BERT or of static vectors.
        path: folder to write; it replaces an earlier export without other files.
        formats: "onnx", "savedmodel", or both.
        index, search, other_model: as for `saved_model`; vectors of images.

    Raises:
        ValueError: an unknown format; an index of another model.
        RuntimeError: a SavedModel, an index or static vectors on another backend than TensorFlow.
    """
    unknown = [name for name in formats if name not in _FORMATS]
    require(len(formats) > 0 and not unknown, f"formats={formats!r}", f"some of {', '.join(_FORMATS)}")
    stated = getattr(index, "fingerprint", None)
    require_same_model("texts", model.fingerprint, "the index", stated, other_model=other_model)
    on_torch = keras.backend.backend() == "torch" and isinstance(model.encoder, TextTower)
    if not on_torch or index is not None or "savedmodel" in formats:
        require_tensorflow()
    network, tokenizer, facts = _network_of(model)
    facts |= {"dim": model.dim, "fingerprint": model.fingerprint, "versions": environment()["versions"]}
    path = as_writable_path(path)
    require_replaceable(path, _listed_files)
    answers = _torch_model(network) if on_torch else _answers(network, index, search)
    with atomic_write(path, _listed_files) as folder:
        folder.mkdir()
        (folder / TOKENIZER).write_text(tokenizer, encoding="utf-8")
        (folder / FACTS).write_text(json.dumps(facts, indent=1))
        if "onnx" in formats:
            (folder / ONNX).write_bytes(onnx_bytes(answers, OPSETS[1]))
        if "savedmodel" in formats:
            _write_saved_model(network, answers, folder / _SAVED_MODEL)
        write_checksums(folder)
    return path


def is_for_page(model: TextModel) -> bool:
    """Whether the page of `web` makes the tokens of a text model: of static vectors by words, or pieces of words."""
    encoder: Any = model.encoder
    if not isinstance(model.encoder, StaticVectors):
        return False
    stated = json.loads(encoder.tokenizer.to_str())
    kinds = [(stated.get(name) or {"type": None})["type"] for name in _OF_PAGE]
    return all(kind in _OF_PAGE[name] for kind, name in zip(kinds, _OF_PAGE, strict=True))


def page_files(model: TextModel, index: VectorIndex | None, search: Search | str | None) -> dict[str, bytes]:
    """The content of `texts.onnx` and `tokenizer.json` by name, for a page whose tokenizer is JavaScript."""
    expected = "static vectors whose tokenizer.json has words, or pieces of words (WordPiece)"
    require(is_for_page(model), "a text model that the page cannot read", expected)
    require_same_model("texts", model.fingerprint, "the index", getattr(index, "fingerprint", None))
    network, tokenizer, _ = _network_of(model)
    return {ONNX: onnx_bytes(_answers(network, index, search), OPSETS[1]), TOKENIZER: tokenizer.encode()}


def _network_of(model):
    """The network from tokens to vectors, the content of the tokenizer's file, and facts about the tokens."""
    encoder: Any = model.encoder
    if isinstance(encoder, TextTower):
        network, tokenizer = encoder.network, encoder.tokenizer.to_json()
        facts = {"kind": "tower", "length": encoder.tokenizer.length}
    else:
        network, tokenizer = _mean_of_rows(encoder), encoder.tokenizer.to_str()
        facts = {"kind": "static", "padding": len(encoder.table)}
    tokens = network.inputs[0]
    return (network if model.head is None else keras.Model(tokens, model.head(network.outputs[0]))), tokenizer, facts


def _mean_of_rows(encoder):
    """Static vectors as a network of token numbers; padding, the last number, and unknown tokens do not count."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    counts = np.ones((len(encoder.table) + 1, 1), np.float32)
    counts[[number for number in (encoder.unknown, len(encoder.table)) if number is not None]] = 0.0
    table = np.concatenate([encoder.table, np.zeros((1, encoder.dim), np.float32)]) * counts
    sums = [keras.ops.sum(_embedding(each)(tokens), axis=1) for each in (table, counts)]
    mean = sums[0] / keras.ops.maximum(sums[1], 1.0)
    return keras.Model(tokens, keras.layers.UnitNormalization()(mean) if encoder.normalize else mean)


def _embedding(table):
    return keras.layers.Embedding(*table.shape, weights=[table])


def _answers(network: Any, index: Any, search: Any) -> PixelModel:
    """The function of tokens, for conversion."""
    dim = network.output_shape[-1]
    graph_index = None if index is None else GraphIndex(index, as_search(search), dim, matches=False)
    spec = tf.TensorSpec((None, *network.input_shape[1:]), "int32", name="tokens")

    def answer(tokens):
        embeddings = tf.cast(network(tokens, training=False), "float32")
        return {"embedding": embeddings} | ({} if graph_index is None else graph_index.search(embeddings))

    function = tf.function(answer, input_signature=[spec])
    outputs = sorted(function.get_concrete_function().structured_outputs)
    return PixelModel(function, {}, {"tokens": spec}, outputs)


def _torch_model(network):
    spec = keras.KerasTensor((None, *network.input_shape[1:]), "int32", name="tokens")
    return PixelModel(network, {}, {"tokens": spec}, ["embedding"])


def _write_saved_model(network, answers, folder):
    archive = keras.export.ExportArchive()
    archive.track(network)
    archive.add_endpoint("serving_default", answers.function, list(answers.inputs.values()))
    archive.write_out(str(folder), verbose=False)


def _listed_files(folder):
    """Names of the files of an export in a folder; empty where its checksums are missing or not of an export."""
    names = listed_files(folder)
    return names if {FACTS, TOKENIZER} <= names else frozenset()
