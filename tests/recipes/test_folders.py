"""The recipes of several modules: their commands, and the examples in the docstrings of what they export."""

import doctest
import inspect
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import tfdml
from recipes import faces, localization, patches, product_search, tracking

ROOT = Path(__file__).parents[2]
FOLDERS = {
    module.__name__.rpartition(".")[2]: module for module in (faces, localization, patches, product_search, tracking)
}
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
SLOW = {"map_tiles", "scenes"}  # They draw the photo patches.


@pytest.mark.parametrize("name", FOLDERS)
def test_the_page_of_a_folder_names_its_command_and_its_modules(name):
    page = (ROOT / "recipes" / name / "README.md").read_text()
    assert f"\npython -m recipes.{name}\n" in page
    assert f"    python -m recipes.{name} " in (ROOT / "recipes" / name / "__main__.py").read_text()
    listed = re.findall(r"`([\w/]+\.py)`", page)
    assert "__main__.py" in listed
    assert [module for module in listed if not (ROOT / "recipes" / name / module).is_file()] == []


def examples():
    for folder, module in FOLDERS.items():
        for name in module.__all__:
            marks = pytest.mark.slow if name in SLOW else ()
            tests = doctest.DocTestFinder(exclude_empty=True).find(getattr(module, name), name, module=False)
            yield from (pytest.param(folder, test, id=test.name, marks=marks) for test in tests if test.examples)


@pytest.mark.parametrize(("folder", "test"), list(examples()))
def test_an_example_has_the_output_that_its_docstring_shows(folder, test):
    report = []
    test.globs = {"np": np, "keras": keras, "tfdml": tfdml, folder: FOLDERS[folder]}
    doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_of_a_folder_is_documented(folder):
    assert all(inspect.getdoc(getattr(FOLDERS[folder], name)) for name in FOLDERS[folder].__all__)
