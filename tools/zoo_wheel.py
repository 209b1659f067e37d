"""Builds the wheel tfdml-zoo, entries of savedmodels as a package that tfdml.zoo finds wherever it is installed.

    python tools/zoo_wheel.py                     # all entries, into dist/
    python tools/zoo_wheel.py glyphs-small        # some of them

An entry that differs from its checksums is not packed. No network is needed. The wheel has the version of tfdml.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tfdml
from tfdml._core.checksums import SUMS, parsed
from tfdml.zoo.paths import GROUP, names_in

ROOT = Path(__file__).parents[1]
PACKAGE = "tfdml_zoo"
PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "tfdml-zoo"
version = "{version}"
description = "Trained models of tfdml: tfdml.zoo.load finds them by name"
license = "Apache-2.0"
license-files = ["LICENSE", "NOTICE"]
requires-python = ">=3.11"

[project.entry-points."{group}"]
models = "{package}"

[tool.setuptools]
packages = ["{package}"]

[tool.setuptools.package-data]
{package} = {files}
"""


def main():
    """Pack the entries that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries; none for all")
    parser.add_argument("--root", type=Path, default=ROOT / "savedmodels", help="folder of entries")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder of the wheel")
    options = parser.parse_args()
    build(options.root, options.names or names_in(options.root), options.output)


def build(root, names, output):
    """Write the wheel of the entries of a folder into `output`."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        files = [file for name in names for file in copied(root, name, project / PACKAGE)]
        (project / PACKAGE / "__init__.py").write_text('"""Trained models, found by `tfdml.zoo`."""\n')
        for name in ("LICENSE", "NOTICE"):
            shutil.copy(ROOT / name, project)
        settings = {"version": tfdml.__version__, "group": GROUP, "package": PACKAGE, "files": json.dumps(files)}
        (project / "pyproject.toml").write_text(PROJECT.format(**settings))
        options = ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(output)]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(project)], check=True)


def copied(root, name, package):
    """Copy a whole entry into the package; returns the names of its files."""
    problems = tfdml.zoo.check(name, root=root)
    if problems:
        sys.exit(f"{name} is not packed: {'; '.join(problems)}")
    shutil.copytree(root / name, package / name)
    return [f"{name}/{file}" for file in [SUMS, *parsed((root / name / SUMS).read_bytes())]]


if __name__ == "__main__":
    main()
