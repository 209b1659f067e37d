"""Dependencies between rooms and modules, imports, and the length of functions."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tfdml

PACKAGE = Path(tfdml.__file__).parent

# Each room, and the rooms it may know; every room may know `_core` and `typing`.
COMMON = {"_core", "typing"}
ARROWS = {
    "_core": set(),
    "typing": set(),
    "pairs": set(),
    "layers": {"pairs"},
    "importance": {"pairs"},
    "miners": {"layers", "pairs"},
    "losses": {"layers", "miners", "pairs"},
    "addons": {"losses", "pairs"},
    "datasets": set(),
    "networks": set(),
    "embedding": set(),
    "models": {"embedding", "layers", "networks", "pairs"},
    "search": set(),
    "samplers": {"datasets", "importance", "pairs", "search"},
    "metrics": {"search"},
    "export": {"datasets", "embedding", "metrics", "networks"},
    "visualize": {"metrics", "networks", "search"},
    "analysis": {"layers", "losses", "miners", "pairs"},
    "evaluation": {"analysis", "datasets", "embedding", "metrics", "models", "search", "visualize"},
    "callbacks": {
        "analysis",
        "embedding",
        "evaluation",
        "export",
        "layers",
        "metrics",
        "models",
        "pairs",
        "samplers",
        "search",
        "visualize",
    },
    "serving": {"datasets", "search"},
    "zoo": {"datasets", "embedding", "evaluation", "export", "metrics", "models"},
    "training": {
        "callbacks",
        "datasets",
        "embedding",
        "evaluation",
        "export",
        "losses",
        "metrics",
        "miners",
        "models",
        "networks",
        "samplers",
        "search",
        "visualize",
        "zoo",
    },
    "distributed": {"embedding", "evaluation", "export", "metrics", "search"},
    "cleaning": {"datasets", "embedding", "metrics", "networks", "search"},
    "cli": {
        "cleaning",
        "datasets",
        "embedding",
        "evaluation",
        "export",
        "metrics",
        "models",
        "search",
        "serving",
        "training",
        "visualize",
        "zoo",
    },
    "__main__": {"cli"},
}

# The upper floor; front doors (`__init__`) may show its names.
PRODUCT = (
    "tfdml.__main__",
    "tfdml.cleaning",
    "tfdml.cli",
    "tfdml.distributed",
    "tfdml.embedding.to_disk",
    "tfdml.evaluation.protocol",
    "tfdml.search.on_disk",
    "tfdml.search.upgrades.migration",
    "tfdml.serving",
    "tfdml.training",
)

MODULES = {
    ".".join(("tfdml", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in PACKAGE.rglob("*.py")
}


def imports_of(file):
    """Modules of tfdml that a file imports, at its top or inside a function."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else node.module for name in inner}
    return names & set(MODULES)


def room_of(module):
    return module.split(".")[1] if "." in module else None


def rooms_known_to(room):
    known = {room_of(name) for module in MODULES if room_of(module) == room for name in imports_of(MODULES[module])}
    return known - {room}


def test_no_folder_has_more_than_twelve_entries():
    entries = {folder: {path.stem for path in folder.iterdir()} for folder in PACKAGE.rglob("*") if folder.is_dir()}
    for folder, names in entries.items():
        assert len(names - {"__init__", "__pycache__"}) <= 12, folder


def functions():
    """Every function of tfdml, with the name of its module."""
    for module, file in MODULES.items():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{module}.{node.name}", node


def body_lines(function):
    """Lines of a body, without the docstring."""
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_every_room_has_its_arrows():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} == set(ARROWS)


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_knows_only_the_rooms_below_it(room):
    assert rooms_known_to(room) <= ARROWS[room] | (COMMON - {room})


def is_product(module):
    """Whether a module is of the upper floor: what is built from the library to be run."""
    return any(module == name or module.startswith(f"{name}.") for name in PRODUCT)


def test_the_library_never_imports_the_product():
    of_library = {name: file for name, file in MODULES.items() if not is_product(name) and file.name != "__init__.py"}
    upward = {name: sorted(filter(is_product, imports_of(file))) for name, file in of_library.items()}
    assert {name: found for name, found in upward.items() if found} == {}


def test_no_module_imports_itself_through_others():
    order = TopologicalSorter({module: imports_of(file) - {module} for module, file in MODULES.items()})
    order.prepare()  # raises an error that names a circle


def test_function_bodies_are_short():
    lines = sorted(body_lines(function) for _, function in functions())
    assert len(lines) > 500
    assert lines[len(lines) // 2] < 6
    assert lines[len(lines) * 9 // 10] < 16


def test_pure_compute_is_keras_ops_only():
    for room in ("pairs", "layers", "importance", "losses", "miners", "models", "networks", "embedding"):
        for file in (PACKAGE / room).rglob("*.py"):
            assert "import tensorflow" not in file.read_text(), file
    assert "import tensorflow\n" not in (PACKAGE / "addons.py").read_text()


def test_every_public_name_is_there_and_an_unknown_one_is_named():
    for name in tfdml.__all__:
        assert getattr(tfdml, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'reducers'; it has addons, "):
        tfdml.reducers  # noqa: B018


INNER_ROOMS = ("datasets.public", "losses.functional", "losses.uncertainty")
ROOMS = [
    *(name for name in tfdml.__all__ if inspect.ismodule(getattr(tfdml, name))),
    "datasets.public",
    "losses.uncertainty",
]


@pytest.mark.parametrize("room", ROOMS)
def test_completion_shows_what_is_public_and_nothing_else(room):
    module = importlib.import_module(f"tfdml.{room}")
    shown = dir(module)
    assert set(shown) == set(module.__all__)
    for name in shown:
        thing = getattr(module, name)
        assert not name.startswith("_")
        assert inspect.ismodule(thing) == (f"{room}.{name}" in INNER_ROOMS)
        assert getattr(thing, "__module__", "tfdml.").startswith("tfdml.")


def test_the_folders_of_losses_are_the_families_of_the_docs():
    page = (PACKAGE.parent / "docs" / "losses.md").read_text()
    sections = page[: page.index("A linear metric on")].split("\n**`")[1:]
    listed = {name: family.partition("`")[0] for family in sections for name in re.findall(r"`(\w+Loss)`", family)}
    names = {name for name in tfdml.losses.__all__ if name.endswith("Loss")} - {"PairLoss"}
    assert listed == {name: getattr(tfdml.losses, name).__module__.split(".")[2] for name in names}


@pytest.mark.slow
def test_importing_tfdml_and_its_data_sets_adds_no_library_to_keras():
    program = """
import sys
import keras
before = set(sys.modules)
import tfdml
import tfdml.datasets
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "tfdml"


def test_the_environment_names_what_a_number_was_measured_on():
    found = tfdml.environment("pytest")
    assert f"tfdml {tfdml.__version__}" in found["versions"]
    assert f"pytest {pytest.__version__}" in found["versions"]
    assert "cores" in found["hardware"]
