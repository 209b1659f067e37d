"""What the code of a tutorial prints and draws, from its notebook."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
TUTORIALS = "docs/tutorials/"
_LINES = 9  # of the text of a block: of more, the last ones are shown


class Outputs(SphinxTransform):
    """Each block of code of a tutorial is followed by its output."""

    default_priority = 600

    def apply(self, **options: Any) -> None:
        """Add text and pictures behind the blocks."""
        if not self.env.docname.startswith(TUTORIALS):
            return
        notebook = NOTEBOOKS / f"{self.env.docname.removeprefix(TUTORIALS)}.ipynb"
        outputs = outputs_by_source(notebook.read_text(encoding="utf-8"))
        for block in list(self.document.findall(nodes.literal_block)):
            index = block.parent.index(block) + 1
            block.parent[index:index] = outputs.get(block.astext().strip(), [])


def outputs_by_source(notebook: str) -> dict[str, list[nodes.Node]]:
    """What each cell of code of a notebook printed and drew."""
    cells = [cell for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code"]
    return {"".join(cell["source"]).strip(): list(_nodes(cell["outputs"])) for cell in cells}


def _nodes(outputs: list[dict[str, Any]]) -> Iterator[nodes.Node]:
    lines = "".join("".join(output.get("text", [])) for output in outputs).splitlines()
    if lines:
        text = "\n".join([*(["..."] if len(lines) > _LINES else []), *lines[-_LINES:]])
        yield nodes.literal_block(text, text, language="none", classes=["output"])
    for output in outputs:
        if picture := output.get("data", {}).get("image/png"):
            source = f"data:image/png;base64,{''.join(picture).strip()}"
            yield nodes.raw("", f'<img src="{source}" alt="What the code above draws">', format="html")
