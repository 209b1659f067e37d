"""Vectors of texts: a sentence encoder that has read, and a head from its vectors to a space of images."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require
from tfdml._core.json_files import read_json
from tfdml._core.optional import optional_import
from tfdml.embedding.vectors import Vectors, with_model
from tfdml.typing import FilePath

_WORDS = 64  # pieces of words; the rest of a text does not count
_ENCODER, _HEAD, _MODEL = "encoder", "head.keras", "model.json"  # of a folder


class SentenceEncoder:
    """A BERT with frozen weights as a function of texts: the mean of its outputs over the pieces of words of a text.

    Example: a BERT of random weights with a vocabulary of eight pieces.

        >>> import keras_hub
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "bird"]
        >>> keras_hub.models.BertTokenizer(vocabulary=words).save_to_preset("encoder")
        >>> sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 4}
        >>> keras_hub.models.BertBackbone(vocabulary_size=8, **sizes).save_to_preset("encoder")
        >>> encoder = tfdml.models.SentenceEncoder("encoder")
        >>> encoder(["a bird", "a red bird"]).shape
        (2, 4)

    Args:
        folder: a BERT that KerasHub reads, such as all-MiniLM-L6-v2: config.json, weights and vocabulary.

    Raises:
        ImportError: KerasHub is not installed.
        ValueError: no folder, or not of a BERT.
    """

    def __init__(self, folder: FilePath) -> None:
        received, expected = f"{str(folder)!r}", "the folder of a BERT that KerasHub reads"
        require(Path(folder).is_dir(), received, expected)  # KerasHub would look for another name on the net
        keras_hub = optional_import("keras_hub", feature="A sentence encoder", extra="hub")
        try:
            self._network = keras_hub.models.BertBackbone.from_preset(str(folder))
            self._tokenizer = keras_hub.models.BertTokenizer.from_preset(str(folder))
        except Exception as error:  # each lack of a file fails in its own way
            raise ValueError(f"Received {received}, expected {expected}: {error}") from error
        start, end = self._tokenizer.cls_token_id, self._tokenizer.sep_token_id
        self._pad = self._tokenizer.pad_token_id
        self._packer = keras_hub.layers.StartEndPacker(_WORDS, start_value=start, end_value=end, pad_value=self._pad)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors `(texts, dim)` of texts, at least one; a text counts up to its 62nd piece of a word."""
        tokens = np.asarray(self._packer(self._tokenizer(list(texts))))
        mask = (tokens != self._pad).astype("int32")
        inputs = {"token_ids": tokens, "padding_mask": mask, "segment_ids": np.zeros_like(tokens)}
        outputs = self._network.predict(inputs, verbose=0)["sequence_output"]
        return (outputs * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)

    def save(self, folder: FilePath) -> None:
        """Write the network and its vocabulary into a new folder, in the form of KerasHub."""
        self._network.save_to_preset(str(folder))
        self._tokenizer.save_to_preset(str(folder))


class TextModel:
    """Texts in the space of a network of images: `text_model(["a red bird"])` is a query for an index of its images.

    `tfdml train --captions` writes one into the folder `text` of its run.

    Args:
        encoder: a function from texts to vectors, `(texts, n)`.
        head: a Keras model from these to the space of the images, `(texts, dim)`.
        fingerprint: of the network of images; an index refuses texts for another one.
    """

    def __init__(self, encoder: SentenceEncoder, head: Any, *, fingerprint: str) -> None:
        self.encoder, self.head, self.fingerprint = encoder, head, fingerprint

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """The vectors `(texts, dim)` of texts, with the fingerprint of the network of images."""
        vectors = self.head.predict(self.encoder(texts), verbose=0)
        return with_model(np.asarray(vectors), self.fingerprint)

    def save(self, folder: FilePath) -> None:
        """Write the model into a folder in one step; an earlier one is replaced."""
        with atomic_write(folder, _listed_files) as new:
            new.mkdir()
            self.encoder.save(new / _ENCODER)
            self.head.save(new / _HEAD)
            (new / _MODEL).write_text(json.dumps({"fingerprint": self.fingerprint}))

    @classmethod
    def load(cls, folder: FilePath) -> "TextModel":
        """The model in a folder that `save` wrote; a ValueError if there is none."""
        import keras

        path = Path(folder)
        missing = [name for name in (_ENCODER, _HEAD, _MODEL) if not (path / name).exists()]
        received = f"{str(folder)!r} without {', '.join(missing)}"
        require(not missing, received, "a text model, such as the folder text of tfdml train --captions")
        head = keras.saving.load_model(path / _HEAD, compile=False)
        fingerprint = read_json(path / _MODEL)["fingerprint"]
        return cls(SentenceEncoder(path / _ENCODER), head, fingerprint=fingerprint)


def _listed_files(folder):
    """Names of the files of a text model."""
    encoder = (file.relative_to(folder).as_posix() for file in (folder / _ENCODER).rglob("*"))
    return {_HEAD, _MODEL, *encoder}
