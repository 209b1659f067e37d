"""Texts as vectors in the space of a network of images."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require
from tfdml._core.checksums import fingerprint as fingerprint_of
from tfdml._core.checksums import listed_files, require_checksums, write_checksums
from tfdml._core.stored import read_json
from tfdml.embedding.text_encoders import StaticVectors, TextTower, opened
from tfdml.embedding.vectors import Vectors, with_model
from tfdml.typing import FilePath

_HEAD, _MODEL, _ENCODER = "head.keras", "model.json", "encoder"


class TextModel:
    """Texts as vectors: by the text tower of two, by a BERT, or by a table of static vectors; and a head after it.

    `recipes/words.py` writes one, whose head leads to the space of the images of a run, into its folder `text`.

    See also: `TwoTowers.from_preset`, whose text tower it takes.

    Example: a BERT of random weights that knows three words, without a head.

        >>> import keras_hub
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "bird"]
        >>> keras_hub.models.BertTokenizer(vocabulary=words).save_to_preset("bert")
        >>> sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 4}
        >>> keras_hub.models.BertBackbone(vocabulary_size=8, **sizes).save_to_preset("bert")
        >>> tfdml.models.TextModel("bert")(["a bird", "a red bird"]).shape
        (2, 4)

    Args:
        encoder: one of:

            * a `TwoTowers` with a tokenizer, such as `from_preset` makes: its text tower;
            * the folder of a BERT that KerasHub reads, such as all-MiniLM-L6-v2: config.json, weights and vocabulary.
              A text is the mean of the outputs over its pieces of words, 126 at most;
            * a folder of static vectors in the form of model2vec: model.safetensors with the tensor `embeddings`, and
              tokenizer.json. A text is the mean of the vectors of its tokens, in NumPy.
        head: a Keras model from these vectors to `(texts, dim)`; None for the vectors themselves.
        fingerprint: of the network of images, for an index to compare; None: of the images of two towers, else unknown.

    Raises:
        ImportError: a package that reads the encoder is not installed.
        ValueError: no folder, or not of an encoder; two towers without a tokenizer.
    """

    def __init__(self, encoder: Any, head: Any = None, *, fingerprint: str | None = None) -> None:
        self.head, self.fingerprint = head, fingerprint
        self.encoder: TextTower | StaticVectors
        if hasattr(encoder, "towers"):
            received, expected = "two towers without a tokenizer", "TwoTowers(..., tokenizer=), or from_preset"
            require(getattr(encoder, "tokenizer", None) is not None, received, expected)
            images, texts = encoder.towers
            self.fingerprint = fingerprint or fingerprint_of(images)
            self.encoder = TextTower(texts, encoder.tokenizer)
        else:
            received, expected = f"{str(encoder)!r}", "the folder of a BERT that KerasHub reads, or of static vectors"
            require(Path(encoder).is_dir(), received, expected)  # KerasHub looks for other names on the net
            self.encoder = opened(Path(encoder))

    @property
    def dim(self) -> int:
        """The size of a vector."""
        return self.encoder.dim if self.head is None else self.head.output_shape[-1]

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """The vectors `(texts, dim)` of one text or more, with the fingerprint of the network of images.

        Raises:
            ValueError: a text without a word that the encoder knows, or longer than the text tower.
        """
        vectors = self.encoder(texts)
        vectors = vectors if self.head is None else self.head.predict(vectors, verbose=0)
        return with_model(np.asarray(vectors), self.fingerprint)

    def require(self, texts: Sequence[str]) -> None:
        """Raise the ValueError of a call for a text without a vector, before a network computes."""
        self.encoder.require(texts)

    def save(self, folder: FilePath) -> None:
        """Write a model into a folder in one step; it replaces an earlier one; other files are an error."""
        with atomic_write(folder, listed_files) as new:
            new.mkdir()
            self.encoder.save(new / _ENCODER)
            if self.head is not None:
                self.head.save(new / _HEAD)
            (new / _MODEL).write_text(json.dumps({"fingerprint": self.fingerprint}))
            write_checksums(new)

    @classmethod
    def load(cls, folder: FilePath) -> "TextModel":
        """The model in a folder that `save` wrote, after a comparison of the files with their checksums."""
        import keras

        path = Path(folder)
        require_checksums(path)
        head = keras.saving.load_model(path / _HEAD) if (path / _HEAD).is_file() else None
        return cls(path / _ENCODER, head, fingerprint=read_json(path / _MODEL)["fingerprint"])
