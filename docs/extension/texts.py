"""Pages for programs that read: each page as Markdown beside its HTML, and llms.txt, which lists them."""

import re
import shutil
from os.path import normpath
from pathlib import Path

from docs.extension import ROOT

TOCTREE = re.compile(r"```\{toctree\}\n:caption: ([^\n]+)\n:hidden:\n\n(.*?)```", re.DOTALL)


def doors() -> dict[str, list[str]]:
    """The lists of docs/index.md: their captions, and the names of their pages in the repository."""
    lists = TOCTREE.findall((ROOT / "docs" / "index.md").read_text())
    return {caption: [normpath(f"docs/{name}") for name in names.split()] for caption, names in lists}


def write_texts(site: Path, names: list[str]) -> None:
    """Copy the Markdown of pages into the site, and list them by door; pages below a page are in its text."""
    for name in names:
        if (source := ROOT / f"{name}.md").is_file():
            shutil.copyfile(source, site / f"{name}.md")
    lines = ["# tfdml", "", f"> {_first_paragraph('docs/index')}"]
    for caption, pages in doors().items():
        lines += ["", f"## {caption}", ""]
        written = [page for page in pages if (site / f"{page}.md").is_file()]
        lines += [f"- [{_title(page)}]({page}.md): {_first_paragraph(page)}" for page in written]
    (site / "llms.txt").write_text("\n".join([*lines, ""]))


def _text(name):
    return re.sub(r"\A---\n.*?\n---\n", "", (ROOT / f"{name}.md").read_text(), flags=re.DOTALL).strip()


def _title(name):
    return _text(name).partition("\n")[0].removeprefix("# ")


def _first_paragraph(name):
    """The paragraph below the title of a page, without its links."""
    _, paragraph, *_ = _text(name).split("\n\n")
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
