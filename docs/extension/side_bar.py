"""The side bar: the lists of docs/index.md, and below some of their pages the pages that go further."""

from typing import Any

from sphinx.application import Sphinx

BELOW = {
    "docs/cleaning": ("/docs/labeling",),
    "docs/datasets": (
        "/docs/images",
        "/docs/loading",
        "/docs/public-sets",
        "/docs/glyphs",
        "/docs/photo-patches",
        "/docs/fashion-mnist",
    ),
    "docs/evaluation": (
        "/docs/verification",
        "/docs/scores",
        "/docs/reidentification",
        "/docs/few-shot",
        "/docs/clustering",
        "/docs/visualize",
        "/recipes/patches/README",
        "/recipes/tracking/README",
    ),
    "docs/from-pytorch-metric-learning": (
        "/docs/from-tensorflow-similarity",
        "/docs/from-sentence-transformers",
        "/docs/addons",
    ),
    "docs/losses": (
        "/docs/losses/table",
        "/docs/losses/independent-pairs",
        "/docs/losses/triplets",
        "/docs/losses/lifted",
        "/docs/losses/softmax",
        "/docs/losses/proxies",
        "/docs/losses/ranking",
        "/docs/losses/clustering",
        "/docs/losses/distillation",
        "/docs/losses/self-supervised",
        "/docs/losses/memory",
        "/docs/losses/sums",
        "/docs/analysis",
        "/docs/speed",
    ),
    "docs/search": ("/docs/adapters", "/docs/your-database", "/docs/compact", "/docs/distributed"),
    "docs/server": ("/docs/running", "/docs/tutorials/serve-with-a-threshold"),
    "docs/training": (
        "/docs/tutorials/resume",
        "/docs/large-batches",
        "/docs/many-devices",
        "/docs/jax-and-gpus",
        "/docs/pytorch",
        "/docs/fixed-features",
    ),
    "docs/two-towers": ("/docs/pairs-and-triplets", "/docs/pair-models"),
    "docs/versions": ("/CHANGELOG", "/CONTRIBUTING", "/SECURITY", "/CODE_OF_CONDUCT"),
    "docs/zoo": ("/savedmodels/README",),
    "benchmarks/README": ("/results/README",),
}
"""Pages below a page, by its name."""


def add_list(app: Sphinx, docname: str, source: list[Any]) -> None:
    """Append the list of the pages below a page, which it does not show."""
    if docname in BELOW:
        source[0] += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(BELOW[docname]) + "\n```\n"
