"""The examples of the docstrings give the numbers that they show."""

import doctest
import inspect

import numpy as np
import pytest

import tfdml

EXAMPLES = {
    name: doctest.DocTestFinder(recurse=False).find(function, name, globs={"np": np, "tfdml": tfdml})[0]
    for name, function in vars(tfdml.metrics).items()
    if inspect.isfunction(function) and ">>>" in (function.__doc__ or "")
}


def test_the_main_functions_have_an_example():
    main = {"retrieval", "retrieval_from_neighbors", "verification", "reidentification", "few_shot", "clustering"}
    assert main <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_the_numbers_that_it_shows(name):
    output = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(EXAMPLES[name], out=output.append)
    assert not runner.failures, "".join(output)
