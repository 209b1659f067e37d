"""Where entries are: folders, and URLs whose files are downloaded into a cache."""

import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

from tfdml._atomic import atomic_write, recovered
from tfdml._checks import require
from tfdml._checksums import SUMS, parsed, problems
from tfdml.datasets.array_cache import cache_folder
from tfdml.zoo.card import FILE

ROOT = "savedmodels"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_URL = re.compile(r"https?://[^?#]+")
_SECONDS = 30
_MOST_BYTES, _MOST_BYTES_OF_SUMS = 2**31, 2**20
_PART = 2**20  # bytes that are read at the same time


def require_name(name: str) -> None:
    """Raise a ValueError unless `name` is the name of an entry, which cannot leave its folder."""
    known = isinstance(name, str) and _NAME.fullmatch(name) is not None
    require(known, f"name={name!r}", "letters, digits, '-', '_' and '.', such as 'products-v2'")


def is_url(root: str | os.PathLike | None) -> bool:
    """Whether entries are downloaded."""
    return isinstance(root, str) and "://" in root


def root_of(root: str | os.PathLike | None) -> Path:
    """The folder of entries, by default `savedmodels` in the current folder."""
    return Path(ROOT if root is None else root).expanduser()


def names_in(folder: Path) -> tuple[str, ...]:
    """Names of the entries of a folder, sorted."""
    return tuple(sorted(place.parent.name for place in folder.glob(f"*/{FILE}") if _NAME.fullmatch(place.parent.name)))


def folder_of(name: str, root: str | os.PathLike | None) -> Path:
    """The folder of an entry; one at a URL is downloaded unless the cache has it.

    Raises:
        ValueError: not the name of an entry; a URL that is not http or https; a download that does not match its
            checksums.
        OSError: a download that fails.
    """
    require_name(name)
    if is_url(root):
        return _downloaded(name, str(root).rstrip("/"))
    folder = root_of(root) / name
    there = ", ".join(names_in(root_of(root))) or "no entries"
    expected = f"one of those in {str(root_of(root))!r}: {there}. Pass root=, a folder or a URL"
    require((recovered(folder) / FILE).is_file(), f"name={name!r}", expected)
    return folder


def _downloaded(name, url):
    require(_URL.fullmatch(url) is not None, f"root={url!r}", "a folder, or a URL of http or https")
    place = _cached(name, url)
    if not recovered(place).exists():
        with atomic_write(place) as new:
            _download(f"{url}/{name}", new)
            found = problems(new)
            require(not found, f"{url}/{name} with {'; '.join(found)}", "files that match it. Load it again")
    return place


def _cached(name, url):
    return cache_folder(None) / "zoo" / hashlib.sha256(url.encode()).hexdigest()[:16] / name


def _download(url, folder):
    """Download the checksums, then the files that they name."""
    folder.mkdir()
    _fetch(f"{url}/{SUMS}", folder / SUMS, _MOST_BYTES_OF_SUMS)
    for name in parsed((folder / SUMS).read_bytes()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _fetch(f"{url}/{name}", folder / name, _MOST_BYTES)


def _fetch(url, file, most):
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer, file.open("wb") as content:
            while part := answer.read(_PART):
                content.write(part)
                require(content.tell() <= most, f"{url} of more than {most:,} bytes", "a smaller file")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        raise OSError(f"{url} could not be loaded ({error}). Look at the URL and at the network.") from error
