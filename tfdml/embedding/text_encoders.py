"""The encoders of a `TextModel`: the text tower of two, a frozen BERT as a tower, or a table of static vectors."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml._core.stored import read_json
from tfdml.embedding.hub_tokenizers import hub_tokenizer
from tfdml.embedding.tokenizer import Tokenizer, require_texts, shown_text, tokenizer_of

_PIECES = 128  # of words that a BERT reads, with the two marks of a text
_TOWER, _TOKENIZER, _TABLE, _CONFIG = "tower.keras", "tokenizer.json", "model.safetensors", "config.json"


def opened(folder: Path) -> "TextTower | StaticVectors":
    """The encoder in a folder: a saved text tower, static vectors, or a BERT that KerasHub reads."""
    if (folder / _TOWER).is_file():
        import keras

        return TextTower(keras.saving.load_model(folder / _TOWER), Tokenizer.load(folder / _TOKENIZER))
    return StaticVectors(folder) if _is_static(folder) else bert(folder)


class TextTower:
    """A network from token numbers `(texts, length)` to vectors, and its tokenizer."""

    def __init__(self, network: Any, tokenizer: Tokenizer) -> None:
        self.network, self.tokenizer = network, tokenizer
        self.dim: int = network.output_shape[-1]

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The outputs of the network."""
        return self.network.predict(self.tokenizer(texts), verbose=0)

    def require(self, texts: Sequence[str]) -> None:
        """Raise a ValueError for a text without a word, or one that is too long."""
        self.tokenizer(texts)

    def save(self, folder: Path) -> None:
        """Write the network and the tokenizer."""
        folder.mkdir()
        self.network.save(folder / _TOWER)
        self.tokenizer.save(folder / _TOKENIZER)


class StaticVectors:
    """The mean of a vector for each token of a text, of the form of model2vec: NumPy alone, and no network.

    The tensors of its safetensors file: `embeddings` `(rows, dim)`; where they exist, `mapping`, the row of each token,
    and `weights`, a factor of each token. Where `normalize` of its config.json is true, means are scaled to norm 1.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        tensors = _tensors(folder)
        self.tokenizer = tokenizer_of((folder / _TOKENIZER).read_text(encoding="utf-8"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        tokens = max(self.tokenizer.get_vocab().values()) + 1
        table = tensors["embeddings"].astype(np.float32)
        rows, weights = tensors.get("mapping", np.arange(tokens)), tensors.get("weights", np.ones(tokens))
        expected = f"a row for each of the {tokens:,} tokens of its {_TOKENIZER}, which may be of another model"
        received = f"{str(folder)!r} with a table of {len(table):,} rows"
        require(len(rows) >= tokens and rows.max() < len(table), received, expected)
        self.table = table[rows] * weights[:, None].astype(np.float32)
        self.dim = self.table.shape[1]
        self.normalize = _is_normalized(folder)
        self.unknown = _unknown_of(self.tokenizer)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The means."""
        means = np.stack([self.table[tokens].mean(axis=0) for tokens in self.tokens(texts)])
        return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12) if self.normalize else means

    def tokens(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The numbers of the known tokens of each text."""
        require_texts(texts)
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        numbers = [np.array([each for each in encoding.ids if each != self.unknown], int) for encoding in encodings]
        for text, tokens in zip(texts, numbers, strict=True):
            require(len(tokens) > 0, f"the text {shown_text(text)}", "a word that the tokenizer knows")
        return numbers

    def require(self, texts: Sequence[str]) -> None:
        """Raise a ValueError for a text without a known word."""
        self.tokens(texts)

    def save(self, folder: Path) -> None:
        """Copy its files."""
        folder.mkdir()
        for name in (_TABLE, _TOKENIZER, _CONFIG):
            if (self._folder / name).is_file():
                shutil.copyfile(self._folder / name, folder / name)


def _is_static(folder):
    """Whether a folder has a tokenizer.json beside a table: `embeddings` is a tensor of no other network."""
    if not ((folder / _TABLE).is_file() and (folder / _TOKENIZER).is_file()):
        return False
    with _safetensors().safe_open(folder / _TABLE, framework="numpy") as file:
        return "embeddings" in set(file.keys())


def _tensors(folder):
    with _safetensors().safe_open(folder / _TABLE, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in set(file.keys())}


def _safetensors():
    return optional_import("safetensors", feature="A table of static vectors", extra="pretrained")


def _is_normalized(folder):
    return bool(read_json(folder / _CONFIG).get("normalize")) if (folder / _CONFIG).is_file() else False


def _unknown_of(tokenizer):
    """The number of the token for what a tokenizer does not know, which has no meaning; None without one."""
    model = json.loads(tokenizer.to_str())["model"]
    name = model.get("unk_token")
    return model.get("unk_id") if name is None else tokenizer.token_to_id(name)


def bert(folder: Path) -> TextTower:
    """A BERT of KerasHub as a tower: the mean of its outputs over the pieces of words of a text and its two marks."""
    import keras

    hub = optional_import("keras_hub", feature="A text model", extra="hub")
    try:
        network = hub.models.BertBackbone.from_preset(str(folder))
        tokenizer = hub.models.BertTokenizer.from_preset(str(folder))
    except Exception as error:  # each lack of a file fails in its own way
        expected = "the folder of a BERT that KerasHub reads, or of static vectors and their tokenizer.json"
        raise ValueError(f"Received {str(folder)!r}, expected {expected}: {error}") from error
    length = min(_PIECES, network.max_sequence_length)
    tokens = keras.Input((length,), dtype="int32", name="tokens")
    mask = keras.ops.cast(tokens != tokenizer.pad_token_id, "int32")
    inputs = {"token_ids": tokens, "padding_mask": mask, "segment_ids": keras.ops.zeros_like(tokens)}
    weights = keras.ops.cast(mask, "float32")[..., None]
    outputs = keras.ops.cast(network(inputs)["sequence_output"], "float32") * weights
    means = keras.ops.sum(outputs, axis=1) / keras.ops.sum(weights, axis=1)
    return TextTower(keras.Model(tokens, means), hub_tokenizer(tokenizer, length))
