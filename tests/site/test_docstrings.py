"""Docstrings become Markdown: sections, examples, lists, and formulas with Greek letters and indices."""
# ruff: noqa: RUF001

import inspect
import re

import pytest

import tfdml
from docs.extension import reference
from docs.extension.docstrings import divided, markdown
from docs.extension.formulas import is_code, is_formula, typeset

DOCSTRING = """\
Summary of one line.

(1 / P) sum_p max(0, d_ap - positive_margin)^2

A sentence with F* and a_b and `code_*`,
on two lines:

* first, which goes
  on
* second

    >>> 1 + 1
    2

See also: `Other`, another one.

Args:
    a, b: two
        lines.
    **options: `name` of all.

Returns:
    `(A,)`; 0 if empty.

Raises:
    ValueError: a below 0.

Source: Someone, 2020,
eq. 1.
"""


def test_a_docstring_is_text_and_then_fields():
    text = markdown(DOCSTRING, frozenset({"positive_margin"}))
    assert text.startswith('Summary of one line.\n\n```{raw} html\n<div class="formula"')
    assert "A sentence with F\\* and a_b and `code_*`, on two lines:\n\n* first, which goes on\n* second\n" in text
    assert "```pycon\n>>> 1 + 1\n2\n```" in text
    fields = text[text.index(":Parameters:") :]
    assert fields.startswith(":Parameters:\n  - `a`, `b`: two lines.\n  - `**options`: `name` of all.\n")
    assert re.findall(r"^:([\w ]+):$", fields, flags=re.MULTILINE) == [
        "Parameters",
        "Returns",
        "Raises",
        "See also",
        "Source",
    ]
    assert "  - `ValueError`: a below 0." in fields
    assert "  Someone, 2020, eq. 1." in fields


def test_text_after_a_section_is_not_part_of_it():
    text, sections = divided("One.\n\nReturns:\n    x.\n\nTime grows with A.\n")
    assert "Time grows with A." in text
    assert sections == [("Returns", "    x.")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(1 / P) sum_p d_ap^2", "(1 / P) ∑_[p] d_[ap]^[2]"),
        ("e^(d - margin) / e^-margin", "e^[d − margin] / e^[−margin]"),
        ("sum_{q <= r} h_p[q]", "∑_[q ≤ r] h_[p][q]"),
        ("max(0, x - positive_margin)", "max(0, x − positive_margin)"),
        ("eta_an = lambda / (L - 1) * N_a", "η_[an] = λ / (L − 1) · N_[a]"),
        ("D^-1/2 S, p*_ar, F*", "D^[−1/2] S, p^[*]_[ar], F^[*]"),
        ("H_k+1 = all of H_k", "H_[k+1] = all of H_[k]"),
        ("Σ_(q ≠ p) e^(−α(s_aq − s_ap)) s_an²", "Σ_[q ≠ p] e^[−α(s_[aq] − s_[ap])] s_[an]²"),
        ("a < b & c", "a &lt; b &amp; c"),
        ("with `log`", "with log"),
    ],
)
def test_a_formula_has_indices_exponents_and_letters(text, expected):
    marked = typeset(text, frozenset({"positive_margin"}))
    for tag, begin in {"sub": "_[", "sup": "^["}.items():
        marked = marked.replace(f"<{tag}>", begin).replace(f"</{tag}>", "]")
    assert re.sub(r"</?(i|code|span)[^>]*>", "", marked) == expected


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("max(0, margin + max_p d_ap - min_n d_an)", True),
        ("S(x, y) = w_s . c + b_s,  c = relu(W_c [u'; v'] + b_c)", True),
        ("log(1 + sum_n exp(scale (s_an - 1)))", True),
        ("mean over j != i of h(|t_i - t_j| / mu_T - |s_i - s_j| / mu_S)", True),
        ("A function `Pairs -> ()`.", False),
        ("For fixed weights w, the loss", False),
        ("Time grows with (A + R)^3, memory with (A + R)^2.", False),
        ("* s_an >= max_score", False),
        ("| a | b |", False),
        ("", False),
    ],
)
def test_a_formula_is_told_from_a_sentence(paragraph, expected):
    assert is_formula(paragraph) == expected


def test_code_is_told_from_a_formula():
    assert is_code('train = tfdml.datasets.tfds("cars196")')
    assert is_code("python -m studies.glyphs")
    assert not is_code("R*(i) = R(i, k1) and |R(j, k1 / 2)| > 2/3 |R(j)|")
    assert not is_code("p = (1 + #{|T'| >= |T|}) / (1 + samples)")


def test_the_function_of_every_loss_has_a_formula():
    functions = [function for function in vars(tfdml.losses.functional).values() if inspect.isfunction(function)]
    texts = [markdown(inspect.getdoc(each), frozenset(reference._parameters(each))) for each in functions]
    assert len(texts) > 50
    without = [each.__name__ for each, text in zip(functions, texts, strict=True) if 'class="formula"' not in text]
    assert without == ["pair_hinge", "pair_logistic"]  # their formulas are in their first sentences
