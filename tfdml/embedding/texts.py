"""Text embeddings: mean-pooled outputs of a frozen BERT, and a projection into the image space."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require
from tfdml._core.checksums import listed_files, require_checksums, write_checksums
from tfdml._core.optional import optional_import
from tfdml._core.stored import read_json
from tfdml.embedding.vectors import Vectors, with_model
from tfdml.typing import FilePath

_PIECES = 64  # of words, of a text with its two marks; the rest does not count
_HEAD, _MODEL, _ENCODER = "head.keras", "model.json", "encoder"


class TextModel:
    """Texts as vectors: the mean of the outputs of a BERT over the pieces of words of a text, and a head after it.

    `recipes/words.py` writes one, whose head leads to the space of the images of a run, into its folder `text`.

    Example: a BERT of random weights that knows three words, without a head.

        >>> import keras_hub
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "bird"]
        >>> keras_hub.models.BertTokenizer(vocabulary=words).save_to_preset("bert")
        >>> sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 4}
        >>> keras_hub.models.BertBackbone(vocabulary_size=8, **sizes).save_to_preset("bert")
        >>> tfdml.models.TextModel("bert")(["a bird", "a red bird"]).shape
        (2, 4)

    Args:
        encoder: folder of a BERT that KerasHub reads, such as all-MiniLM-L6-v2: config.json, weights and vocabulary.
        head: a Keras model from these means to `(texts, dim)`; None for the means themselves.
        fingerprint: of the network of images, for an index to compare; None: unknown.

    Raises:
        ImportError: KerasHub is not installed.
        ValueError: no folder, or not of a BERT.
    """

    def __init__(self, encoder: FilePath, head: Any = None, *, fingerprint: str | None = None) -> None:
        self.head, self.fingerprint = head, fingerprint
        received, expected = f"{str(encoder)!r}", "the folder of a BERT that KerasHub reads"
        require(Path(encoder).is_dir(), received, expected)  # KerasHub looks for other names on the net
        hub = optional_import("keras_hub", feature="A text model", extra="hub")
        try:
            self._network = hub.models.BertBackbone.from_preset(str(encoder))
            self._tokenizer = hub.models.BertTokenizer.from_preset(str(encoder))
        except Exception as error:  # each lack of a file fails in its own way
            raise ValueError(f"Received {received}, expected {expected}: {error}") from error
        start, end, self._pad = (getattr(self._tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad"))
        self._pack = hub.layers.StartEndPacker(_PIECES, start, end, self._pad)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """The vectors `(texts, dim)` of one text or more, with the fingerprint of the network of images."""
        tokens = np.asarray(self._pack(self._tokenizer(list(texts))))
        mask = (tokens != self._pad).astype("int32")
        inputs = {"token_ids": tokens, "padding_mask": mask, "segment_ids": np.zeros_like(tokens)}
        outputs = self._network.predict(inputs, verbose=0)["sequence_output"]
        means = (outputs * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        vectors = means if self.head is None else self.head.predict(means, verbose=0)
        return with_model(np.asarray(vectors), self.fingerprint)

    def save(self, folder: FilePath) -> None:
        """Write a model with a head into a folder in one step; it replaces an earlier one; other files are an error."""
        with atomic_write(folder, listed_files) as new:
            new.mkdir()
            for saved in (self._network, self._tokenizer):
                saved.save_to_preset(str(new / _ENCODER))
            self.head.save(new / _HEAD)
            (new / _MODEL).write_text(json.dumps({"fingerprint": self.fingerprint}))
            write_checksums(new)

    @classmethod
    def load(cls, folder: FilePath) -> "TextModel":
        """The model in a folder that `save` wrote, after a comparison of the files with their checksums."""
        import keras

        path = Path(folder)
        require_checksums(path)
        fingerprint = read_json(path / _MODEL)["fingerprint"]
        return cls(path / _ENCODER, keras.saving.load_model(path / _HEAD), fingerprint=fingerprint)
