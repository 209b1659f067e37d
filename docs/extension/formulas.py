"""Formulas of docstrings, which are plain text, as HTML with Greek letters, subscripts and exponents."""

import html
import re

_LETTERS_BY_NAME = "alpha beta gamma delta epsilon eta theta lambda mu nu pi sigma tau phi psi"
_GREEK = {name: html.unescape(f"&{name};") for name in _LETTERS_BY_NAME.split(" ")}
_WORDS = _GREEK | {"sum": "∑", "sqrt": "√"}
_SIGNS = {"!=": "≠", "<=": "≤", ">=": "≥", "->": "→", "-": "\N{MINUS SIGN}", "*": "·"}
_OPERATORS = {"sum", "Σ", "mean", "max", "min", "argmax", "argmin", "log", "exp", "cos", "sin", "tan", "softmax"}
_OPERATORS |= {"sqrt", "relu", "sigmoid", "tr", "diag", "var"}

_GROUP = r"\{[^{}]*\}|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_LETTER, _LETTERS = "[A-Za-zͰ-Ͽ]", "[A-Za-z0-9_Ͱ-Ͽ]"
_TOKEN = re.compile(
    rf"""
    (?P<code>`[^`]+`)
    | \^(?P<exponent>{_GROUP}|[-\u2212]?\w+(?:/\w+)?|\*)
    | (?P<name>{_LETTER}{_LETTERS}*?)(?P<star>\*?)
      _(?P<index>{_GROUP}|[A-Za-z0-9]+(?:,\w+)?(?:\+(?:\d+)?(?=[\s,()\[]|$))?)(?!{_LETTERS})
    | (?P<word>{_LETTER}{_LETTERS}*)
    | (?P<sign>!=|<=|>=|->|-|(?<=\s)\*(?=\s))
    | (?P<mark>\*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CODE = re.compile(r"tfdml|import |python |\w\.\w+\(|[\"'][^\"',|]*[\"']|#(?!\{)")


def is_code(text: str) -> bool:
    """Whether a block of a docstring or of a page is code or output rather than formulas."""
    return bool(_CODE.search(text))


def is_formula(paragraph: str, names: frozenset[str] = frozenset()) -> bool:
    """Whether a paragraph is a formula rather than a sentence: signs of mathematics, no full stop, few words.

    Args:
        paragraph: a paragraph of a docstring.
        names: names of arguments, which are not words.
    """
    text = re.sub(r"`[^`]*`", "", paragraph.strip())
    if not text or text[-1] in ".:;?" or text[0] in "|*" or text.startswith("- "):
        return False
    signs = re.findall(r"[=+^<>/]|\w_\w|\w\(| - |[#|]", text)
    words = [word for word in re.findall(r"(?<![\w.])[A-Za-z]{2,}(?![\w(.])", text) if word not in _OPERATORS | names]
    return len(signs) >= 1 and len(words) <= 2 * len(signs) and not re.match(r"[A-Z][a-z]* [a-z]{2,} ", text)


def formula_block(text: str, names: frozenset[str] = frozenset()) -> str:
    """A formula as an element of a page, which scrolls where it is wider than the page."""
    return f'<div class="formula" role="math" tabindex="0">{typeset(text, names)}</div>'


def typeset(text: str, names: frozenset[str] = frozenset()) -> str:
    """A formula of one or more lines as HTML.

    Args:
        text: such as `(1 / P) sum_p max(0, d_ap - margin)^2`.
        names: names of arguments, which stay whole though they have underscores.
    """
    return "".join(_html(match, names) for match in _TOKEN.finditer(text))


def _html(match, names):
    kind, token = match.lastgroup, match.group()
    if match["code"]:
        return f"<code>{html.escape(token[1:-1])}</code>"
    if match["exponent"]:
        return f"<sup>{_inner(match['exponent'], names)}</sup>"
    if match["mark"]:
        return "<sup>*</sup>"
    if token in names or (match["name"] and not _takes_index(match["name"], match["index"])):
        return f'<span class="word">{html.escape(token)}</span>'
    if match["name"]:
        return f"{_word(match['name'])}{match['star'] and '<sup>*</sup>'}<sub>{_inner(match['index'], names)}</sub>"
    if kind == "word":
        return _word(token)
    return _SIGNS.get(token, html.escape(token))


def _takes_index(name, index):
    """Whether the text after the underscore is an index rather than the second word of a name."""
    return len(name) == 1 or len(index) == 1 or name in _OPERATORS or name in _GREEK


def _inner(text, names):
    """What an exponent or an index holds, without its brackets."""
    if text[0] == "{" or (text[0] == "(" and text[-1] == ")"):
        text = text[1:-1]
    return typeset(text, names)


def _word(name):
    """A letter is a variable, in italics; words are upright."""
    shown = _WORDS.get(name, name)
    is_variable = (len(name) == 1 or name in _GREEK) and name != "Σ"
    return f"<i>{shown}</i>" if is_variable else shown
