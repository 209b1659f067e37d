"""The extension of Sphinx that builds the site: pages of the reference, links from names, labels of kinds."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from docs.extension import API, KINDS, pages, reference
from docs.extension.accessibility import accessible
from docs.extension.formulas import formula_block, is_code, is_formula
from docs.extension.names import entries, meaning
from docs.extension.outputs import Outputs
from docs.extension.side_bar import add_list
from docs.extension.texts import write_texts


class LinksFromNames(SphinxTransform):
    """Names of tfdml in backticks become links to the reference, but not in titles and links."""

    default_priority = 600

    def apply(self, **options: Any) -> None:
        """Wrap each literal that means a name."""
        room = self.env.docname.removeprefix("docs/api/") if self.env.docname.startswith("docs/api/") else None
        for literal in list(self.document.findall(nodes.literal)):
            target = meaning(literal.astext(), room)
            target = entries()[target].home if target in entries() else target
            is_taken = _is_inside(literal, nodes.title, nodes.reference, addnodes.pending_xref)
            if target and not is_taken and literal.astext() not in _parameters(literal):
                role = "obj" if target in entries() else "mod"
                options = {"refdomain": "py", "reftype": role, "reftarget": target, "refwarn": True}
                link = addnodes.pending_xref("", refdoc=self.env.docname, refexplicit=True, **options)
                literal.replace_self(link)
                link += literal


class Formulas(SphinxTransform):
    """Indented formulas of a page are typeset; indented code is highlighted."""

    default_priority = 600

    def apply(self, **options: Any) -> None:
        """Replace the indented blocks that are formulas."""
        for block in list(self.document.findall(nodes.literal_block)):
            text = block.astext()
            if block.get("language") == "none" and is_code(text):
                block["language"] = "python" if "tfdml" in text else "none"
            elif block.get("language") == "none" and is_formula(text.replace(",\n", "\n").rstrip(",")):
                block.replace_self(nodes.raw("", formula_block(text), format="html"))


def _parameters(node):
    """Names of the parameters of the functions and classes whose descriptions hold a node."""
    names = set()
    while node := node.parent:
        if isinstance(node, addnodes.desc):
            names |= {name.astext() for name in node[0].findall(addnodes.desc_sig_name)}
    return names


def _is_inside(node, *kinds):
    while node := node.parent:
        if isinstance(node, kinds):
            return True
    return False


def annotation(app: Sphinx, env: Any, node: Any, content: Any) -> Any:
    """A type in a signature: a link if it is a public name, else its text."""
    if node.get("refdomain") != "py" or node.get("refwarn"):
        return None
    target = meaning(node["reftarget"].rpartition(".")[2])
    if target is None:
        return content
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)


def label(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Show the kind of a page above its title."""
    kind = KINDS.get(app.env.metadata[pagename].get("kind", ""))
    if kind and doctree:
        context["body"] = f'<p class="kind">{kind}</p>\n{context["body"]}'


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Make the pages that are written accessible, and add their Markdown."""
    if exception is None:
        write_texts(Path(app.outdir), sorted(app.env.found_docs))
    for page in Path(app.outdir).rglob("*.html") if exception is None else ():
        text = page.read_text()
        if text != (better := accessible(text)):
            page.write_text(better)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the extension with Sphinx."""
    app.connect("builder-inited", lambda app: reference.write(API, pages()))
    app.connect("source-read", add_list)
    app.connect("missing-reference", annotation)
    app.connect("html-page-context", label)
    app.connect("build-finished", finish)
    app.add_transform(LinksFromNames)
    app.add_transform(Formulas)
    app.add_transform(Outputs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
