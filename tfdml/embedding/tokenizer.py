"""Texts as rows of token numbers, by a file `tokenizer.json` of the library tokenizers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml._core.serialization import serializable
from tfdml.typing import FilePath

_SHOWN = 40  # characters of a text in an error


@serializable
class Tokenizer:
    """Texts as token numbers for a text tower: case, marks of start and end, and padding as the tower was trained.

    `TwoTowers.from_preset` makes one. All its settings stand in one JSON, which the library tokenizers and its
    relatives in other languages read.

    See also: `TextModel`, from texts to vectors.

    Example: a tokenizer of three words, whose rows have four numbers.

        >>> import tokenizers
        >>> known = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "a": 1, "bird": 2}, "<pad>"))
        >>> known.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        >>> known.enable_padding(length=4, pad_id=0, pad_token="<pad>")
        >>> tfdml.models.Tokenizer(known.to_str())(["a bird", "bird"])
        array([[1, 2, 0, 0],
               [2, 0, 0, 0]], dtype=int32)

    Args:
        json: the content of a `tokenizer.json`, whose padding has a fixed length.

    Raises:
        ImportError: the library tokenizers is not installed.
        ValueError: a text that is no such JSON, or padding without a fixed length.
    """

    def __init__(self, json: str) -> None:
        self._tokenizer = tokenizer_of(json)
        padding = self._tokenizer.padding or {}
        received = f"a tokenizer with the padding {padding or None}"
        require(padding.get("length") is not None, received, "a fixed length, the number of tokens of the tower")
        self.length: int = padding["length"]
        self._tokenizer.no_truncation()  # a text that is too long is an error

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The token numbers `(texts, length)` of texts, int32.

        Raises:
            ValueError: one text in place of several, one without a word, or one that is too long.
        """
        require_texts(texts)
        encodings = self._tokenizer.encode_batch(list(texts))
        for text, encoding in zip(texts, encodings, strict=True):
            tokens = sum(encoding.attention_mask)
            marks = sum(np.multiply(encoding.special_tokens_mask, encoding.attention_mask))
            require(tokens > marks, f"the text {shown_text(text)}", "a word that the tokenizer knows")
            received = f"the text {shown_text(text)} of {tokens - marks} tokens"
            require(tokens <= self.length, received, f"at most {self.length - marks}. Cut the text")
        return np.array([encoding.ids for encoding in encodings], np.int32).reshape(len(encodings), self.length)

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest number of a token."""
        return max(self._tokenizer.get_vocab().values()) + 1

    def to_json(self) -> str:
        """The content of its `tokenizer.json`."""
        return self._tokenizer.to_str()

    def get_config(self) -> dict[str, Any]:
        """The JSON."""
        return {"json": self.to_json()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The tokenizer of a config."""
        return cls(**config)

    def save(self, path: FilePath) -> None:
        """Write its `tokenizer.json`."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """The tokenizer of a file."""
        return cls(Path(path).read_text(encoding="utf-8"))


def tokenizer_of(json: str) -> Any:
    """A `tokenizers.Tokenizer` of its JSON."""
    library = optional_import("tokenizers", feature="A tokenizer", extra="hub")
    try:
        return library.Tokenizer.from_str(json)
    except Exception as error:  # the library raises no narrower one
        raise ValueError(f"Received a tokenizer that cannot be read ({error}), expected a tokenizer.json.") from error


def require_texts(texts: Sequence[str]) -> None:
    """Raise a ValueError for one text in place of several, and for one that is blank."""
    require(not isinstance(texts, str | bytes), f"one text, {texts!r:.60}", "a list of texts")
    for text in texts:
        require(isinstance(text, str), f"{text!r:.60} among the texts", "texts")
        require(bool(text.strip()), f"the text {shown_text(text)}", "a text with a word")


def shown_text(text: str) -> str:
    """A text in an error, cut where it is long."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
