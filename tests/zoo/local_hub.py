"""A stand-in of huggingface_hub over a folder; each call has to fit the signature of the real function."""

import fnmatch
import functools
import inspect
from types import SimpleNamespace

import huggingface_hub


def like(real, *implicit):
    """Decorate a function: its arguments, after the implicit ones, are bound to the signature of the real function."""

    def decorated(function):
        @functools.wraps(function)
        def checked(*args, **kwargs):
            inspect.signature(real).bind(*implicit, *args, **kwargs)
            return function(*args, **kwargs)

        return checked

    return decorated


class LocalHub:
    """Repositories in memory, and a cache of snapshots in a folder whose files are links, as in huggingface_hub.

    Attributes:
        repos: files by name of the commits of a repository: `repos[repo_id][revision]`, a commit or a branch.
        calls: names and arguments of calls.
        before_download: called with the number of earlier downloads.
    """

    def __init__(self, cache):
        self.cache, self.repos, self.calls, self.downloads = cache, {}, [], 0
        self.before_download = lambda downloads: None
        real = huggingface_hub.HfApi
        self.HfApi = like(real)(self._api)
        self.CommitOperationAdd = like(huggingface_hub.CommitOperationAdd)(SimpleNamespace)
        self.snapshot_download = like(huggingface_hub.snapshot_download)(self._snapshot_download)
        names = ("create_repo", "create_commit")
        self.api = SimpleNamespace(
            **{name: like(getattr(real, name), None)(getattr(self, f"_{name}")) for name in names}
        )

    def _api(self, **options):
        self.calls.append(("HfApi", options))
        return self.api

    def _create_repo(self, repo_id, **options):
        self.calls.append(("create_repo", options))
        self.repos.setdefault(repo_id, {"main": {".gitattributes": b"*.keras filter=lfs\n"}})
        return SimpleNamespace(repo_id=repo_id)

    def _create_commit(self, repo_id, operations, *, commit_message):
        files = {each.path_in_repo: each.path_or_fileobj.read_bytes() for each in operations}
        commit = self.commit(repo_id, files)
        return SimpleNamespace(commit_url=f"https://huggingface.co/{repo_id}/commit/{commit}")

    def commit(self, repo_id, files, revision="main"):
        """Add files to a branch; returns the hash of the commit."""
        branches = self.repos.setdefault(repo_id, {"main": {}})
        commit = f"{len(branches):040x}"
        branches[revision] = branches[commit] = {**branches.get(revision, {}), **files}
        return commit

    def _snapshot_download(self, repo_id, *, revision=None, allow_patterns):
        self.before_download(self.downloads)
        self.downloads += 1
        branches = self.repos[repo_id]
        files = branches[revision or "main"]
        commit = next(name for name in branches if len(name) == 40 and branches[name] is files)
        folder = self.cache / repo_id.replace("/", "--") / "snapshots" / commit
        for name in (name for name in files for pattern in allow_patterns if fnmatch.fnmatchcase(name, pattern)):
            blob, link = folder.parents[1] / "blobs" / f"{commit}-{name.replace('/', '-')}", folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            blob.parent.mkdir(exist_ok=True)
            blob.write_bytes(files[name])
            link.unlink(missing_ok=True)
            link.symlink_to(blob)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)
