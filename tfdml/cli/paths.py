"""The kind of what is at a path, as an error says it, told without Keras."""

import difflib
import importlib.metadata
import mimetypes
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

RUN, INDEX, IMAGE = "a run of tfdml train", "an index", "an image file"
_FOLDERS = {  # by files that are in them
    RUN: ("settings.toml",),
    INDEX: ("index.json", "shards.json", "_versions"),
    "embeddings of tfdml embed": ("embeddings.npy",),
    "a SavedModel": ("saved_model.pb",),
    "a model of the zoo": ("model.keras",),
}
_MODELS = (RUN, "a SavedModel", "a model of the zoo", "a .keras file")
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")


def kind_of(name: str) -> str | None:
    """The kind of a file or folder, such as "an index"; None where there is nothing."""
    path = Path(name).expanduser()
    if path.is_dir():
        return _kind_of_folder(path)
    if not path.exists():
        return None
    kind, _ = mimetypes.guess_type(path.name)
    if path.suffix.lower() in _ARCHIVES:
        return "an archive that must be unpacked first"
    return IMAGE if (kind or "").startswith("image/") else f"a {path.suffix} file" if path.suffix else "a file"


def _kind_of_folder(path):
    for kind, names in _FOLDERS.items():
        if any((path / name).exists() for name in names):
            return kind
    if any(file.parent.name.isdecimal() for file in path.glob("*/saved_model.pb")):
        return "a SavedModel"
    children = [child for child in path.iterdir() if not child.name.startswith(".")]
    has_images = any(child.is_dir() or kind_of(str(child)) == IMAGE for child in children)
    return "a folder of images" if has_images else "a folder of other files" if children else "an empty folder"


def is_model(kind: str | None) -> bool:
    """Whether something of this kind embeds images."""
    return kind in _MODELS


def nothing_at(name: str, names: Iterable[str] = ()) -> str:
    """That there is nothing of a name, with the nearest one of its folder or of other `names`."""
    path = Path(name).expanduser()
    beside = [str(Path(name).parent / child.name) for child in path.parent.glob("*")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(name, sorted({*beside, *names}), n=1)
    return f"no such file or folder{f' (did you mean {near[0]!r}?)' if near else ''}"


def names_of_zoo() -> list[str]:
    """Names of the models in the folder of the zoo and in installed packages. No package is imported."""
    folders = [Path("savedmodels")]
    for package in importlib.metadata.entry_points(group="tfdml.zoo"):
        spec = find_spec(package.value) if package.value.isidentifier() else None
        folders += map(Path, (spec and spec.submodule_search_locations) or ())
    return sorted({card.parent.name for folder in folders for card in folder.glob("*/model.json")})
