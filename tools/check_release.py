"""Checks the wheel and the source archive in dist/ before they are uploaded.

    python -m build --no-isolation && python tools/check_release.py
    python tools/check_release.py --install python3.11 python3.12 python3.13

The first looks at their files, versions, metadata and links, and needs twine. The second also installs the wheel into
an empty environment of each Python and runs a program of tests/programs there, without extras and with TensorFlow. It
needs a package index and 2 GB at a time. Prints what is wrong, and exits with 1 if anything is.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.addresses import relative_links  # noqa: E402

# The source archive has these, and nothing of savedmodels.
SOURCES = {"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "setup.cfg", "Makefile"}
PROGRAMS = ROOT / "tests" / "programs"


def main():
    """Print the problems of the archives that the command line names; the exit code is 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the archives")
    parser.add_argument("--install", nargs="+", metavar="PYTHON", default=(), help="Pythons to install the wheel with")
    options = parser.parse_args()
    wheel, source = only(options.dist, "tfdml-*.whl"), only(options.dist, "tfdml-*.tar.gz")
    problems = [*wheel_problems(wheel), *source_problems(source), *version_problems(versions(ROOT, wheel, source))]
    problems += described([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source)], ROOT)
    for python in options.install:
        problems += install_problems(python, wheel.resolve())
    print("\n".join(problems) or f"{wheel.name} and {source.name} are fit to upload.")
    return 1 if problems else 0


def only(folder, pattern):
    """The only file of a pattern."""
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        sys.exit(f"Received {len(files)} files {pattern} in {folder}, expected one. Run make dist.")
    return files[0]


def tracked(*paths):
    """Names of the files that git tracks in these folders."""
    listed = subprocess.run(["git", "ls-files", "-z", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split("\0")) - {""}


def wheel_problems(wheel):
    """The wheel has each tracked file of the package, its licenses, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    metadata = {name for name in contents if name.partition("/")[0].endswith(".dist-info")}
    expected, names = tracked("tfdml"), set(contents) - metadata
    licenses = {PurePosixPath(name).name for name in metadata if "/licenses/" in name}
    return [
        *(f"{wheel.name} lacks {name}" for name in sorted(expected - names)),
        *(f"{wheel.name} has {name}, which git does not track there" for name in sorted(names - expected)),
        *(f"{wheel.name} lacks the license {name}" for name in sorted({"LICENSE", "NOTICE"} - licenses)),
        *(f"the description of {wheel.name} links to {target}" for target in relative_links(described_in(contents))),
        *path_problems(wheel, contents),
    ]


def described_in(contents):
    """The long description of a wheel."""
    metadata = next(content for name, content in contents.items() if name.endswith(".dist-info/METADATA"))
    return HeaderParser().parsestr(metadata.decode()).get_payload()


def source_problems(source):
    """The source archive has the package and its tests, and nothing that git does not track."""
    with tarfile.open(source) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
        links = [member.name for member in archive if not (member.isfile() or member.isdir())]
    contents = {name.partition("/")[2]: content for name, content in files.items()}
    made = {name for name in contents if name == "PKG-INFO" or name.startswith("tfdml.egg-info/")}
    expected = SOURCES | tracked("tfdml", "tests")
    return [
        *(f"{source.name} lacks {name}" for name in sorted(expected - set(contents))),
        *(f"{source.name} has {name}, which git does not track" for name in sorted(set(contents) - made - tracked())),
        *(f"{source.name} has the link {name}" for name in links),
        *path_problems(source, contents),
    ]


def path_problems(archive, contents):
    """Names that leave the archive, and files that name a folder of this machine."""
    outside = [name for name in contents if name.startswith("/") or ".." in PurePosixPath(name).parts]
    folders = [str(folder).encode() for folder in (ROOT, Path.home())]
    local = [name for name, content in contents.items() if any(re.search(rb"%b\b" % f, content) for f in folders)]
    return [
        *(f"{archive.name} has {name!r}, which is outside of it" for name in outside),
        *(f"{archive.name} has {name}, which names a folder of this machine" for name in local),
    ]


def versions(root, wheel, source):
    """Each place that states the version of a release, and what it states."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    return {
        "tfdml.__version__": first(r'^__version__ = "(.+)"$', root / "tfdml" / "__init__.py"),
        wheel.name: metadata["Version"],
        source.name: source.name.removeprefix("tfdml-").removesuffix(".tar.gz"),
        "CITATION.cff": first(r"^version: (.+)$", root / "CITATION.cff"),
        "CHANGELOG.md": first(r"^## (\S+?),? \d{4}-\d\d-\d\d$", root / "CHANGELOG.md"),
    }


def first(pattern, file):
    """The first match of a pattern in a file; None without one."""
    match = re.search(pattern, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return match and match.group(1)


def version_problems(stated):
    """All places state one version."""
    different = ", ".join(f"{version} in {name}" for name, version in stated.items())
    return [] if len(set(stated.values())) == 1 else [f"the versions differ: {different}"]


def install_problems(python, wheel):
    """The wheel works in an empty environment of a Python, first without a backend and then with TensorFlow."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        new = Path(folder) / "bin" / "python"
        commands = [
            [new, "-m", "pip", "install", "--quiet", wheel],
            [new, "-m", "pip", "check"],
            [Path(folder) / "bin" / "tfdml", "--help"],
            [Path(folder) / "bin" / "tfdml", "--version"],
            [new, PROGRAMS / "without_keras.py"],
            [new, "-m", "pip", "install", "--quiet", f"{wheel}[tensorflow]"],
            [new, PROGRAMS / "without_extras.py"],
        ]
        return [f"{python}: {problem}" for command in commands for problem in described(command, folder)]


def described(command, folder):
    """Run a command; returns its last lines if it fails, and prints them otherwise."""
    surroundings = os.environ | {"TFDML_CACHE": str(Path(folder) / "cache")}  # a full cache needs no extra
    done = subprocess.run(list(map(str, command)), cwd=folder, env=surroundings, capture_output=True, text=True)
    if done.returncode == 0:
        print(done.stdout.strip())
        return []
    return [f"{Path(command[0]).name} {' '.join(map(str, command[1:]))}: {(done.stdout + done.stderr)[-3000:]}"]


if __name__ == "__main__":
    sys.exit(main())
