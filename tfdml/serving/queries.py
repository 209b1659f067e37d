"""The queries of a request: image files, items of the index, and texts. Each finds its vector."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from tfdml.serving.bodies import kind_of, read_base64, read_form, read_object, require_request, shown, unknown
from tfdml.serving.limits import RefusedError

INPUT = "images"  # of a model
Box = tuple[float, float, float, float]
_Vectors = Callable[[Any], Awaitable[Any]]
_MAX_TEXT = 1_000  # characters of a query in words


class _Query(msgspec.Struct, frozen=True):
    row: ClassVar[int] = -1  # of the index
    is_image: ClassVar[bool] = False

    def located(self, records: Any) -> Any:
        """The query with the `row` and the vector that it has in an index."""
        return self


class FileQuery(_Query, frozen=True):
    """The content of an image file, and the box of what is asked for in it, in pixels of the upright image."""

    content: bytes
    box: tuple[float, ...] | None = None
    is_image: ClassVar[bool] = True

    def vector(self, embed_file: _Vectors, embed_text: _Vectors) -> Awaitable[Any]:
        """The embedding of the file, or the reason why it has none."""
        return embed_file(self)

    def file(self, records: Any) -> "FileQuery":
        """Itself."""
        return self


class TextQuery(_Query, frozen=True):
    """A query in words."""

    text: str

    def __post_init__(self) -> None:
        """Refuse a text that is blank or long."""
        good = self.text.strip() and len(self.text) <= _MAX_TEXT
        require_request(good, "another text", f"a text of 1 to {_MAX_TEXT:,} characters")

    def vector(self, embed_file: _Vectors, embed_text: _Vectors) -> Awaitable[Any]:
        """The vector of the text."""
        return embed_text(self.text)

    def file(self, records: Any) -> FileQuery:
        """A text has none: a RefusedError."""
        raise RefusedError(400, "Received a text, expected two, files or items.")


class ItemQuery(_Query, frozen=True):
    """An item of the index, by its id or by its row."""

    id: str | int | UnsetType = UNSET
    number: int | UnsetType = msgspec.field(default=UNSET, name="row")

    def located(self, records: Any) -> "LocatedItem":
        """The item with its row and its vector; a RefusedError if there is none."""
        row = self._row(records)
        return LocatedItem(row, records.vector(row))

    def file(self, records: Any) -> FileQuery:
        """The file of the item; a RefusedError if there is none."""
        return records.file(self._row(records))

    def _row(self, records):
        return records.row("row", self.number) if self.id is UNSET else records.row("id", self.id)


@dataclass(frozen=True, eq=False)
class LocatedItem:
    """An item of the index with its row and its vector."""

    row: int
    stored: np.ndarray
    is_image: ClassVar[bool] = False

    async def vector(self, embed_file: _Vectors, embed_text: _Vectors) -> Any:
        """Its vector in the index."""
        return self.stored


class _File(msgspec.Struct):
    b64: Raw
    box: Box | None = None


class _Named(msgspec.Struct):
    images: Raw


_FORMS: dict[str, Any] = {"b64": _File, "id": ItemQuery, "row": ItemQuery, "text": TextQuery}


def read_query(row: Raw) -> FileQuery | ItemQuery | TextQuery:
    """`{"b64": "...", "box": [8, 0, 72, 40]}`, `{"id": 17}`, `{"row": 3}` or `{"text": "a cat"}`."""
    row = unnamed(row)
    names = _names(row)
    kinds = [name for name in names if name in _FORMS]
    if len(kinds) != 1:
        raise unknown(shown(row), names, _FORMS)
    return _file(row) if kinds == ["b64"] else read_form(row, _FORMS[kinds[0]])


def read_file(row: Raw) -> FileQuery:
    """`{"b64": "..."}`, or `{"images": {"b64": "..."}}`, and a `box` beside `b64`."""
    row = unnamed(row)
    if "b64" not in _names(row):
        raise RefusedError(400, f'Received {shown(row)}, expected a file as {{"b64": "..."}}.')
    return _file(row)


def unnamed(value: Raw) -> Raw:
    """The value that is named by the input of the model, or the value itself."""
    return read_form(value, _Named).images if INPUT in _names(value) else value


def _names(value):
    return list(read_object(value)) if kind_of(value) == "an object" else []


def _file(row):
    file = read_form(row, _File)
    return FileQuery(read_base64(file.b64), file.box)
