"""What depends on the addresses of the repository and the site: links of the long description, and the project's pages.

Both stand in pyproject.toml, under `tool.addresses`, and are empty until they are known. `setup.py` and `docs/conf.py`
read them here.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
_PICTURES = (".png", ".gif", ".svg", ".jpg")


def addresses(root=ROOT):
    """The addresses `repository` and `site`, without a slash at the end; "" for an unknown one."""
    found = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["addresses"]
    return {name: found[name].rstrip("/") for name in ("repository", "site")}


def relative_links(text):
    """The targets of links that lead nowhere outside of the repository."""
    return [target for _, _, target in _LINK.findall(text)]


def long_description(text, repository):
    """A page whose links work outside of the repository: absolute ones, or their text where no address is known."""
    return _LINK.sub(lambda link: _outside(*link.groups(), repository), text)


def _outside(mark, text, target, repository):
    if not repository:
        return "" if mark else text
    folder = "raw" if target.endswith(_PICTURES) else "blob"
    return f"{mark}[{text}]({repository}/{folder}/main/{target})"


def project_urls(repository, site):
    """The pages of the project that an index of packages lists."""
    pages = {
        "Documentation": site,
        "Source": repository,
        "Changelog": repository and f"{repository}/blob/main/CHANGELOG.md",
        "Issues": repository and f"{repository}/issues",
    }
    return {name: page for name, page in pages.items() if page}
