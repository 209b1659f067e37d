"""Text and style sheets of the pages that tfdml writes and serves."""

import html
from importlib.resources import files

from tfdml._core.terminal import visible


def escape(text: str) -> str:
    """Text for HTML; control and right-to-left characters are escapes, line breaks stay."""
    return html.escape("\n".join(map(visible, text.split("\n"))))


def style_sheet(package: str, *path: str) -> str:
    """The common style sheet, followed by the one of a page: colors, text and margins are the same on all pages.

    Args:
        package: package of the page.
        *path: names of folders and of the file in the package.
    """
    sheets = (files("tfdml._core").joinpath("pages.css"), files(package).joinpath(*path))
    return "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
