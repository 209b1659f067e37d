"""The examples in the docstrings of public names: each runs and gives the output that it shows."""

import dataclasses
import doctest
import inspect
import re

import keras
import numpy as np
import pytest

import tfdml
from docs.extension.names import public

GLOBALS = {"np": np, "keras": keras, "ops": keras.ops, "tfdml": tfdml}
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# Names without an example, by the reason.
WITHOUT = {
    "It reads the files of a published set, whose size it checks.": [
        "datasets.public.cars196",
        "datasets.public.cub200",
        "datasets.public.in_shop",
        "datasets.public.lfw",
        "datasets.public.market1501",
        "datasets.public.mini_imagenet",
        "datasets.public.omniglot",
        "datasets.public.stanford_online_products",
        "datasets.public.vehicle_id",
    ],
    "It reads what tensorflow-datasets has downloaded and prepared.": ["datasets.tfds"],
    "It needs grain.": ["samplers.grain_batches"],
    "It needs a repository or a dataset of Hugging Face.": ["datasets.huggingface", "zoo.pull", "zoo.push"],
}
# Names whose examples take more than two seconds of a core, some of them at the first call only.
SLOW = {
    "datasets.glyphs",
    "datasets.photo_patches",
    "datasets.sketches",
    "distributed.SearchActors",
    "distributed.build_index",
    "distributed.cross_validate",
    "distributed.embed",
    "distributed.join",
    "distributed.retrieval",
    "distributed.search_shards",
    "models.PairMining",
    "training.train",
}


def public_names():
    """Every public function, class and constant by name, under the room that it comes from: `models` shows others'."""
    names, seen = {}, set()
    for room in sorted(tfdml.__all__, key="models".__eq__):
        for name, member in members_of(room, getattr(tfdml, room)):
            if id(member) not in seen:
                names[name] = member
                seen.add(id(member))
    return names


def members_of(name, member):
    """The public names of a module and of the modules that it shows; another member is itself."""
    if not inspect.ismodule(member):
        return [(name, member)]
    return [pair for inner in public(member) for pair in members_of(f"{name}.{inner}", getattr(member, inner))]


PUBLIC = public_names()
RETURNED = {
    word
    for member in PUBLIC.values()
    if inspect.isfunction(member)
    for word in re.findall(r"\w+", str(inspect.signature(member).return_annotation))
}


def needs_example(member):
    """Whether a name is a function or a class, but no protocol, and no record that a public function returns.

    The example of the function shows the record, the example of a class its function.
    """
    if not inspect.isclass(member):
        return inspect.isfunction(member) and not re.match(r"Values of `\w+`, one per", member.__doc__ or "")
    is_record = dataclasses.is_dataclass(member) or issubclass(member, tuple)
    return not (getattr(member, "_is_protocol", False) or (is_record and member.__name__ in RETURNED))


def examples_of(name):
    """The examples of a public name and of its methods, as doctests."""
    tests = doctest.DocTestFinder(exclude_empty=True).find(PUBLIC[name], name, globs=dict(GLOBALS))
    return [test for test in tests if test.examples]


def with_example():
    names = [name for name, member in PUBLIC.items() if callable(member) and examples_of(name)]
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]


@pytest.fixture(scope="module")
def cluster():
    """Ray with two processors, which is not started again by the first example of `tfdml.distributed`."""
    ray = pytest.importorskip("ray")
    ray.shutdown()  # of another test of this process
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2**27)
    yield
    ray.shutdown()


@pytest.mark.parametrize("name", with_example())
def test_an_example_has_the_output_that_its_docstring_shows(name, tmp_path, monkeypatch, request):
    if name.startswith("distributed."):
        request.getfixturevalue("cluster")
    monkeypatch.chdir(tmp_path)
    report = []
    for test in examples_of(name):
        doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(test, out=report.append)
    assert not report, "".join(report)


def test_every_function_and_class_shows_an_output():
    names = {name for name, member in PUBLIC.items() if needs_example(member)}
    shown = {name for name in names if any(example.want for test in examples_of(name) for example in test.examples)}
    assert names - shown == {name for listed in WITHOUT.values() for name in listed}


def test_every_loss_names_related_losses():
    classes = [name for name, member in PUBLIC.items() if inspect.isclass(member)]
    losses = [name for name in classes if issubclass(PUBLIC[name], keras.losses.Loss)]
    assert [name for name in losses if not re.search("^See also: ", inspect.getdoc(PUBLIC[name]), re.MULTILINE)] == []


def test_every_function_of_a_loss_names_its_class():
    functions = [getattr(tfdml.losses.functional, name) for name in public(tfdml.losses.functional)]
    named = {re.match(r"Values of `(\w+)`, one per", inspect.getdoc(function))[1] for function in functions}
    assert len(functions) == len(named)
    assert named < set(tfdml.losses.__all__)
