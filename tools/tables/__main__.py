"""Tables of all losses, miners and samplers, from the code: `python -m tools.tables` writes them into the pages.

A row is a public class. What it needs and does is tried on a small batch. Its times are those of
`benchmarks/losses.py`, and its retrieval is that of `studies/leaderboard`.
"""

from studies import pages
from tools.tables import losses, miners, samplers

DOCS = pages.ROOT / "docs"
TABLES = {
    DOCS / "losses" / "table.md": ("losses", losses),
    DOCS / "mining.md": ("miners", miners),
    DOCS / "samplers.md": ("samplers", samplers),
}


def filled(page):
    """The text of a page with its table."""
    name, module = TABLES[page]
    return pages.replaced(page.read_text(), f"<!-- {name} of tools/tables -->", f"\n{module.table()}\n")


if __name__ == "__main__":
    for page in TABLES:
        page.write_text(filled(page))
