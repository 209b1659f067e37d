"""What Sphinx and Furo leave out of their HTML for readers who use a keyboard or a screen reader."""

import re

_REPLACEMENTS = (
    # The keyboard can scroll only what it can reach.
    (r"<pre>", '<pre tabindex="0">'),
    (r'<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    (r'<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    (r'<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">'),
    (r'<aside class="toc-drawer', '<aside aria-label="On this page" class="toc-drawer'),
    (r'<th class="([^"]*)"><p></p></th>', r'<td class="\1"></td>'),
)
# Parameters of a signature, one on each line: a list of definitions without terms.
_PARAMETERS = re.compile(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>")


def accessible(html: str) -> str:
    """A page with these changes; one that has them stays the same."""
    for pattern, replacement in _REPLACEMENTS:
        html = re.sub(pattern, replacement, html)
    return _PARAMETERS.sub(_as_lines, html)


def _as_lines(match):
    lines = match[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")
    return f'<span class="sig-lines">\n{lines}</span>'
