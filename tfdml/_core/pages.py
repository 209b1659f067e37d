"""Style sheets of the pages that tfdml writes and serves."""

from importlib.resources import files


def style_sheet(package: str, *path: str) -> str:
    """The common style sheet, followed by the one of a page: colors, text and margins are the same on all pages.

    Args:
        package: package of the page.
        *path: names of folders and of the file in the package.
    """
    sheets = (files("tfdml._core").joinpath("page.css"), files(package).joinpath(*path))
    return "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
