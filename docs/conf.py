"""Settings of the site: `make docs` builds it from the root of the repository, without a network."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import tfdml  # noqa: E402
from tools.addresses import addresses  # noqa: E402

project = "tfdml"
author = "the tfdml authors"
copyright = "the tfdml authors, Apache License 2.0"
version = release = tfdml.__version__

extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton", "docs.extension.site"]
source_suffix = {".md": "markdown", ".myst": "markdown"}
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "*/README.md",
    "recipes/*/README.md",
    "savedmodels/*/README.md",
    "README.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = ["savedmodels/demo", "**/.*", ".*"]  # what `make docs` and `make demo` write
# The cards of savedmodels are in no list: their table leads to them. tests/site/test_pages.py looks for pages of docs.
suppress_warnings = ["toc.not_included"]
nitpicky = True
smartquotes = False

myst_enable_extensions = ["attrs_block", "colon_fence", "fieldlist"]
myst_heading_anchors = 4

add_module_names = False
python_maximum_signature_line_length = 80
python_trailing_comma_in_multi_line_signatures = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"tfdml {version}"
html_baseurl = addresses()["site"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["sortable.js"]
html_search_scorer = str(ROOT / "docs" / "_static" / "scorer.js")
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "to_door.html"}
templates_path = ["templates"]
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
