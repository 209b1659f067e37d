"""Folders of entries: local folders, installed packages, and downloads in the cache."""

import hashlib
import http.client
import importlib.metadata
import importlib.util
import os
import re
import urllib.error
import urllib.request
import warnings
from pathlib import Path

from tfdml._core.atomic import atomic_write, read_whole, recovered
from tfdml._core.checks import require
from tfdml._core.checksums import SUMS, parsed, problems
from tfdml.datasets.caches.array_cache import cache_folder
from tfdml.typing import FilePath
from tfdml.zoo.card import FILE

ROOT = "savedmodels"
APART = ("index", "index.migrating", "text", "thumbnails.npz")  # of a run: they change, and have checksums of their own
GROUP = "tfdml.zoo"  # of the entry points of packages with models
NO_ENTRIES = "Install a package with models, such as tfdml-zoo, or pass root=, a folder or a URL"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_URL = re.compile(r"https?://[^?#]+")
_TIMEOUT = 30  # seconds
_MAX_BYTES, _MAX_BYTES_OF_SUMS = 2**31, 2**20
_BLOCK = 2**20  # bytes that are read at the same time


def require_name(name: str) -> None:
    """Raise a ValueError unless `name` is the name of an entry; such a name is no path out of its folder."""
    is_name = isinstance(name, str) and _NAME.fullmatch(name) is not None
    require(is_name, f"name={name!r}", "letters, digits, '-', '_' and '.', such as 'products-v2'")


def is_url(root: FilePath | None) -> bool:
    """Whether entries come from a URL."""
    return isinstance(root, str) and "://" in root


def root_of(root: FilePath | None) -> Path:
    """The folder of entries, by default `savedmodels` in the current folder."""
    return Path(ROOT if root is None else root).expanduser()


def roots_of(root: FilePath | None) -> list[Path]:
    """Folders of entries: `root`; for None `savedmodels` in the current folder, then installed packages."""
    if root is not None:
        return [root_of(root)]
    folders = map(_package_folder, importlib.metadata.entry_points(group=GROUP))
    return [root_of(None), *sorted({folder for folder in folders if folder is not None})]


def _package_folder(entry_point):
    """The folder of a package, without an import; None, with a warning, if there is no such package."""
    package, name = entry_point.value, entry_point.dist.name
    spec = importlib.util.find_spec(package) if package.isidentifier() else None  # a dot would import the package
    if spec is None or not spec.submodule_search_locations:
        reason = f"its entry point names {package!r}, which is not an installed package"
        warnings.warn(f"The models of {name} are left out: {reason}. Install {name} again.", stacklevel=2)
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def names_in(folder: Path) -> tuple[str, ...]:
    """Names of the entries of a folder, sorted."""
    return tuple(sorted(card.parent.name for card in folder.glob(f"*/{FILE}") if _NAME.fullmatch(card.parent.name)))


def entry_folders(roots: list[Path]) -> dict[str, list[Path]]:
    """Folders by the names of all entries, sorted: several folders for an entry of several installed packages."""
    return {name: folders_named(name, roots) for name in sorted({name for root in roots for name in names_in(root)})}


def folders_named(name: str, roots: list[Path]) -> list[Path]:
    """Folders of the entries of a name: in the first root, else in the other roots, the packages."""
    first, *others = [root / name for root in roots]
    return [first] if _is_entry(first) else [folder for folder in others if _is_entry(folder)]


def _is_entry(folder):
    return (recovered(folder) / FILE).is_file()


def require_one(name: str, folders: list[Path]) -> None:
    """Raise a ValueError where several packages have an entry of one name."""
    received = f"name={name!r}, an entry in {' and '.join(repr(str(folder.parent)) for folder in folders)}"
    require(len(folders) == 1, received, "one of them. Pass one of these folders as root=")


def folder_of(name: FilePath, root: FilePath | None) -> Path:
    """The folder of an entry, by its name or, without a root, its path; of a URL, from the cache or a download."""
    text = os.fspath(name)
    if root is None and (text != name or os.sep in text or text.startswith("~")):
        folder = Path(text).expanduser()
        require(_is_entry(folder), f"{text!r}", f"the folder of an entry, with {FILE}, or the name of one")
        return folder
    require_name(text)
    if is_url(root):
        return _downloaded(text, str(root).rstrip("/"))
    roots = roots_of(root)
    folders = folders_named(text, roots) or ([Path(text)] if root is None and _is_entry(Path(text)) else [])
    names = "; ".join(f"in {str(root)!r}: {', '.join(names_in(root)) or 'no entries'}" for root in roots)
    require(bool(folders), f"name={text!r}", f"an entry {names}. {NO_ENTRIES}")
    require_one(text, folders)
    return folders[0]


def undamaged_folder_of(name: FilePath, root: FilePath | None) -> Path:
    """The folder of an entry, as `folder_of`; it downloads a damaged one in the cache again, with a warning."""
    folder = folder_of(name, root)
    damage = read_whole(folder, damage_of) if is_url(root) else ()
    if damage:
        reasons = "; ".join(damage)
        warnings.warn(f"{str(folder)!r} in the cache is damaged ({reasons}). It is downloaded again.", stacklevel=3)
        _download_to(folder, f"{str(root).rstrip('/')}/{name}")
    return folder


def _downloaded(name, url):
    require(_URL.fullmatch(url) is not None, f"root={url!r}", "a folder, or a URL of http or https")
    folder = cache_folder() / "zoo" / hashlib.sha256(url.encode()).hexdigest()[:16] / name
    if not recovered(folder).exists():
        _download_to(folder, f"{url}/{name}")
    return folder


def _download_to(folder, url):
    """Download an entry and compare it with its checksums; only an undamaged one replaces `folder`."""
    with atomic_write(folder, _files_in) as new:
        _download(url, new)
        require_undamaged(new, url, "Nothing of them is kept in the cache: load the entry again")


def require_undamaged(folder: Path, origin: str, advice: str) -> None:
    """Raise a ValueError that names the origin of a download, unless its files match its checksums."""
    damage = damage_of(folder)
    require(not damage, f"{origin} with {'; '.join(damage)}", f"the files of its SHA256SUMS. {advice}")


def damage_of(folder: Path) -> tuple[str, ...]:
    """Differences between an entry and its checksums; the index of a run is no part of it."""
    return problems(folder, apart=APART)


def _files_in(folder):
    """Names of all files of a folder: in the cache, it replaces any of them."""
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*")}


def _download(url, folder):
    folder.mkdir()
    _fetch(f"{url}/{SUMS}", folder / SUMS, _MAX_BYTES_OF_SUMS)
    for name in parsed((folder / SUMS).read_bytes()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _fetch(f"{url}/{name}", folder / name, _MAX_BYTES)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https, but none from https to http."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        allowed = ("https:",) if req.full_url.startswith("https:") else ("http:", "https:")
        if not newurl.lower().startswith(allowed):
            raise urllib.error.HTTPError(
                newurl, code, f"redirect to {newurl}, expected {' or '.join(allowed)}", headers, fp
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(url, file, most):
    try:
        with urllib.request.build_opener(_Redirects).open(url, timeout=_TIMEOUT) as answer, file.open("wb") as content:
            while block := answer.read(_BLOCK):
                content.write(block)
                require(content.tell() <= most, f"{url} of more than {most:,} bytes", "a smaller file")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        raise OSError(f"{url} could not be loaded ({error}). Look at the URL and at the network.") from error
