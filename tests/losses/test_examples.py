"""The examples in the docstrings of losses: they run, their numbers are right, and every loss has one."""

import doctest
import inspect

import keras
import numpy as np
import pytest

import tfdml

PUBLIC = {
    name: getattr(room, name)
    for room in (tfdml.losses, tfdml.losses.uncertainty)
    for name in room.__all__
    if not inspect.ismodule(getattr(room, name))
}
LOSSES = [name for name, thing in PUBLIC.items() if inspect.isclass(thing) and issubclass(thing, keras.losses.Loss)]


def examples_of(name):
    """The examples of a public name and of its methods, as doctests."""
    tests = doctest.DocTestFinder(exclude_empty=True).find(PUBLIC[name], name, globs={"tfdml": tfdml, "np": np})
    return [test for test in tests if test.examples]


@pytest.mark.parametrize("name", [name for name in PUBLIC if examples_of(name)])
def test_examples_have_the_results_that_their_docstring_shows(name):
    report = []
    for test in examples_of(name):
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_names_related_losses_and_shows_a_value(name):
    lines = inspect.getdoc(PUBLIC[name]).splitlines()
    assert any(line.startswith("See also: ") for line in lines)
    assert any(example.want for test in examples_of(name) for example in test.examples)
