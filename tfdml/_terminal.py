"""Text from files, made safe to print on a terminal."""

import unicodedata

_ESCAPED = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # categories: controls, directions, half characters, breaks of lines


def visible(text: str) -> str:
    r"""Text of one line whose control characters are escapes such as `\x1b`, so that a terminal obeys none of them.

    Line breaks are escaped too, so that text from a file cannot print a line of its own.
    """
    return "".join(
        _escape(character) if unicodedata.category(character) in _ESCAPED else character for character in text
    )


def _escape(character):
    return character.encode("unicode_escape").decode()
