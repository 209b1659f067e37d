"""The recipes of several modules: their commands, and the examples in the docstrings of what they export."""

import doctest

import keras
import numpy as np
import pytest

import tfdml
from recipes import faces, localization, patches, product_search, tracking

FOLDERS = {
    module.__name__.rpartition(".")[2]: module for module in (faces, localization, patches, product_search, tracking)
}
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
SLOW = {"map_tiles", "scenes"}  # They draw the photo patches.


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
