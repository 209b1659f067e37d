"""What builds the site beside Sphinx: the reference from docstrings, links from names, formulas, labels of kinds."""

from pathlib import Path

KINDS = {"tutorial": "Tutorial", "how-to": "How-to guide", "explanation": "Explanation", "reference": "Reference"}
ROOT = Path(__file__).parents[2]
API = ROOT / "docs" / "api"


def pages() -> list[Path]:
    """The pages that people write, in docs and beside it."""
    rooms = [ROOT / room / "README.md" for room in ("recipes", "studies", "benchmarks")]
    return [*sorted((ROOT / "docs").rglob("*.md")), *rooms, *sorted((ROOT / "recipes").glob("*/README.md"))]
