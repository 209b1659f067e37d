"""Pages that tfdml writes and serves: their text, their style sheets, and reports that need no other file."""

import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from tfdml._core.optional import has_tensorflow, optional_import, tf
from tfdml._core.terminal import visible

JPEG_QUALITY = 80  # 1 to 100
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{head}</head>
<body>
{body}</body>
</html>
"""


class Card(NamedTuple):
    """An image, a data URI or empty, with a caption of HTML; `name` is shown in place of a missing image.

    `kind` is a class of the style sheet: "query", "right", "wrong", or none.
    """

    name: str
    caption: str
    image: str = ""
    alt: str = ""
    kind: str = ""


def escape(text: str) -> str:
    """Text for HTML; control and right-to-left characters are escapes, line breaks stay."""
    return html.escape("\n".join(map(visible, text.split("\n"))))


def jpeg_of(pixels: np.ndarray) -> bytes:
    """The JPEG of a small picture, uint8 `(height, width, 3)`; without TensorFlow, Pillow writes it."""
    if has_tensorflow():
        return tf.io.encode_jpeg(pixels, quality=JPEG_QUALITY).numpy()
    pillow, file = optional_import("PIL.Image", feature="A picture", extra="plots"), io.BytesIO()
    pillow.fromarray(pixels).save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue()


def style_sheet(package: str, *path: str) -> str:
    """The common style sheet, followed by the one of a page, the file at `path` in the package."""
    sheets = (files("tfdml._core.pages").joinpath("common.css"), files(package).joinpath(*path))
    return "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


def document(title: str, body: str, *, head: str = "") -> str:
    """An HTML document: its title as text, its body and further lines of its head as HTML."""
    return _DOCUMENT.format(title=escape(title), head=head, body=body)


def page(title: str, sections: Mapping[str, str], *, header: str = "", head_title: str = "") -> str:
    """A report of sections of HTML by heading: one document that loads no other file and runs no script."""
    links, texts = [], []
    for heading, text in sections.items():
        name = re.sub(r"\W+", "-", heading.lower())
        links.append(f'<li><a href="#{name}">{escape(heading)}</a></li>')
        texts.append(f'<section id="{name}">\n<h2>{escape(heading)}</h2>\n{text}</section>\n')
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<style>\n{style_sheet('tfdml._core.pages', 'report.css')}</style>\n"
    )
    body = (
        f"<header>\n<h1>{escape(title)}</h1>\n{header}"
        f'<nav aria-label="Sections"><ul>{"".join(links)}</ul></nav>\n</header>\n<main>\n{"".join(texts)}</main>\n'
    )
    return document(head_title or title, body, head=head)


def cards(images: Iterable[Card]) -> str:
    """The HTML of cards side by side."""
    return f'<div class="tiles">{"".join(map(_card, images))}</div>'


def _card(card):
    name = escape(card.name)
    image = f'<span class="name">{name}</span>'
    if card.image:
        image = f'<img src="{card.image}" alt="{escape(card.alt)}" title="{name}">'
    kind = f' class="{card.kind}"' if card.kind else ""
    return f"<figure{kind}>{image}<figcaption>{card.caption}</figcaption></figure>"


def listed(items: Iterable[str], kind: str) -> str:
    """A list of HTML items; `kind` is its class in the style sheet."""
    lines = "".join(f"<li>{item}</li>\n" for item in items)
    return f'<ol class="{kind}">\n{lines}</ol>\n' if lines else "<p>None.</p>\n"


def terms(texts: Mapping[str, str]) -> str:
    """The HTML of a description list of texts by name."""
    lines = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>\n" for name, text in texts.items())
    return f"<dl>\n{lines}</dl>\n"


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The HTML of a table of texts; the first cell of a row is its header."""
    if not rows:
        return "<p>None.</p>\n"
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>\n'
        for first, *cells in rows
    )
    return (
        f'<div class="table"><table>\n<caption><span>{escape(caption)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{lines}</tbody>\n</table></div>\n"
    )
