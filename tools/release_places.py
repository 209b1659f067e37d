"""Where users look for the project, what goes there, and which addresses are missing: `make release-check`.

The addresses stand in pyproject.toml, under `tool.addresses`; a person fills them in. Exits with 1 if one is missing.
"""

import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Place(NamedTuple):
    """A place, what goes there, the addresses that it needs, and the files that are sent or shown."""

    name: str
    action: str
    needs: tuple[str, ...]
    files: tuple[str, ...] = ()


PLACES = (
    Place("package index", "twine upload dist/tfdml-* dist/tfdml_zoo-*", ("repository", "site"), ("setup.cfg",)),
    Place(
        "conda-forge", "send the recipe with the checksum of the archive", ("index",), ("tools/release/recipe.yaml",)
    ),
    Place("site", "make docs, and copy build/site", ("site",), ("docs/conf.py",)),
    Place("hub: models", "tfdml.zoo.push of each entry of savedmodels", ("hub",), ("savedmodels/README.md",)),
    Place(
        "hub: a Space", "tfdml export savedmodels/things --to web, as a static Space", ("space",), ("docs/runtimes.md",)
    ),
    Place("keras.io", "the first text, with its program", ("index",), ("recipes/image_similarity.py",)),
    Place("FiftyOne, LightlyStudio", "the other two texts, with the page", ("index", "site"), ("docs/adapters.md",)),
    Place("citation", "repository-code, and a DOI if there is one", ("repository",), ("CITATION.cff",)),
)
TEXTS = "tools/release/texts.md"


def missing(addresses, places=PLACES):
    """The names of addresses that a place needs and that are empty, by the name of the place."""
    return {place.name: [name for name in place.needs if not addresses.get(name)] for place in places}


def lines(addresses, places=PLACES):
    """A line per place: whether it is ready, what goes there, and from which files."""
    empty = missing(addresses, places)
    for place in places:
        state = f"needs {', '.join(empty[place.name])}" if empty[place.name] else "ready"
        yield f"{place.name:<25}{state:<25}{place.action} ({', '.join(place.files)})"


def main():
    """Print the places; the exit code is 1 if an address is missing."""
    addresses = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["addresses"]
    print("\n".join(lines(addresses)))
    print(f"Addresses: tool.addresses in pyproject.toml. Texts: {TEXTS}.")
    return int(any(missing(addresses).values()))


if __name__ == "__main__":
    sys.exit(main())
