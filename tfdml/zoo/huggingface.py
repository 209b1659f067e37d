"""Entries in repositories of Hugging Face: `push` uploads one, `pull` downloads one."""

import functools
import shutil
from pathlib import Path

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require
from tfdml._core.checksums import SUMS, parsed
from tfdml._core.optional import optional_import
from tfdml.typing import FilePath
from tfdml.zoo.card import read_card
from tfdml.zoo.entries import opened
from tfdml.zoo.paths import require_name, require_undamaged, undamaged_folder_of
from tfdml.zoo.publishing import entry_files, entry_path


def push(repo_id: str, *, root: FilePath | None = None, private: bool | None = None) -> str:
    """Upload an entry to a repository of Hugging Face of its name.

        tfdml.zoo.push("user/glyphs-small")

    `push` compares the entry with its checksums, and loads its model and card. Its files become one commit. Other files
    of the repository stay. huggingface_hub finds the access token (`hf auth login`, or `HF_TOKEN`).

    Args:
        repo_id: name of a user or an organization, "/", and the name of the entry; it creates a new repository.
        root: folder of entries, as for `load`.
        private: whether a new repository is private; None for the default of the account.

    Returns:
        The URL of the commit.

    Raises:
        ValueError: there is no such entry, it is damaged, or a name that Hugging Face refuses.
    """
    hub = optional_import("huggingface_hub", feature="tfdml.zoo.push", extra="huggingface")
    name = _entry_name(repo_id)
    folder = undamaged_folder_of(name, root)
    _require_name_of(opened(folder)[1], name)
    files = [hub.CommitOperationAdd(path_in_repo=file, path_or_fileobj=folder / file) for file in entry_files(folder)]
    api = hub.HfApi()
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    return api.create_commit(repo_id, files, commit_message=f"{name}, by tfdml.zoo.push").commit_url


def pull(repo_id: str, *, revision: str | None = None, root: FilePath | None = None) -> Path:
    """Download an entry from a repository of Hugging Face into a folder of entries.

        tfdml.zoo.pull("user/glyphs-small")
        model = tfdml.zoo.load("glyphs-small")

    It downloads the files that `SHA256SUMS` lists into the cache of huggingface_hub, copies them, and compares them
    with these checksums before it parses any. A complete entry then replaces an older one in one step.

    Args:
        repo_id: name of a user or an organization, "/", and the name of the entry.
        revision: a branch, a tag or the hash of a commit; None for "main". The hash pins the files.
        root: folder of entries; None for `savedmodels` in the current folder.

    Raises:
        ValueError: a repository without an entry of its name, or with a changed or missing file.
        FileExistsError: the folder `root/name` holds a file that is not part of an entry; it is named.
    """
    hub = optional_import("huggingface_hub", feature="tfdml.zoo.pull", extra="huggingface")
    name = _entry_name(repo_id)
    folder = entry_path(name, root)
    snapshot = _snapshot(functools.partial(hub.snapshot_download, repo_id), repo_id, revision)
    with atomic_write(folder, entry_files) as new:
        _copy_listed(snapshot, new)
        origin = f"{repo_id!r}, downloaded to {str(snapshot.parents[1])!r},"
        require_undamaged(new, origin, "Remove that folder and pull again; if that does not help, push the entry again")
        _require_name_of(read_card(new), name)
    return folder


def _entry_name(repo_id):
    name = str(repo_id).rpartition("/")[2]
    require_name(name)
    return name


def _require_name_of(card, name):
    require(card.name == name, f"the entry {card.name!r}", f"{name!r}, the name of its repository and of its folder")


def _snapshot(download, repo_id, revision):
    """The folder of one commit in the cache of huggingface_hub, with the checksums and the files that they list."""
    sums = Path(download(revision=revision, allow_patterns=[SUMS])) / SUMS
    require(sums.is_file(), f"{repo_id!r} without {SUMS}", "a repository that tfdml.zoo.push wrote")
    return Path(download(revision=sums.parent.name, allow_patterns=list(parsed(sums.read_bytes()))))


def _copy_listed(source, target):
    """Copy the checksums of an entry, and the listed files that are there."""
    for name in (SUMS, *parsed((source / SUMS).read_bytes())):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
