"""Dependencies between rooms and modules, imports, and the length of functions."""

import ast
import importlib
import inspect
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tfdml

PACKAGE = Path(tfdml.__file__).parent

# Each room, and the rooms it may know.
ARROWS = {
    "_checks": set(),
    "_checksums": {"_checks"},
    "_json": set(),
    "_atomic": set(),
    "_figure": set(),
    "_images": set(),
    "_environment": set(),
    "_serialization": set(),
    "_memory_maps": set(),
    "_backends": set(),
    "_progress": set(),
    "_terminal": set(),
    "_loading": {"_checks", "_memory_maps"},
    "pairs": {"_checks", "_serialization"},
    "layers": {"_checks", "_serialization", "pairs"},
    "importance": {"_checks", "_serialization", "pairs"},
    "losses": {"_checks", "_serialization", "layers", "miners", "pairs"},
    "miners": {"_checks", "_serialization", "layers", "pairs", "search"},
    "models": {
        "_atomic",
        "_backends",
        "_checks",
        "_checksums",
        "_json",
        "_memory_maps",
        "_progress",
        "_serialization",
        "layers",
        "pairs",
    },
    "samplers": {"_checks", "_loading", "importance", "miners", "pairs"},
    "datasets": {
        "_atomic",
        "_checks",
        "_checksums",
        "_images",
        "_loading",
        "_memory_maps",
        "_progress",
        "_serialization",
        "_terminal",
    },
    "search": {"_atomic", "_checks", "_checksums", "_json", "_memory_maps"},
    "metrics": {"_checks", "search"},
    "export": {"_atomic", "_checks", "_checksums", "_environment", "_json", "datasets"},
    "addons": {"_checks", "_serialization", "losses", "pairs"},
    "visualize": {"_atomic", "_checks", "_figure", "search"},
    "analysis": {"_figure", "layers", "miners", "pairs"},
    "evaluation": {
        "_atomic",
        "_checks",
        "_environment",
        "_figure",
        "_json",
        "analysis",
        "datasets",
        "metrics",
        "models",
        "search",
    },
    "callbacks": {
        "_atomic",
        "_checks",
        "analysis",
        "export",
        "layers",
        "metrics",
        "models",
        "pairs",
        "samplers",
        "search",
        "visualize",
    },
    "serving": {"_checks", "datasets"},
    "zoo": {
        "_atomic",
        "_checks",
        "_checksums",
        "_environment",
        "_terminal",
        "datasets",
        "evaluation",
        "export",
        "metrics",
        "models",
    },
    "cli": {"_checks", "_json", "_terminal", "datasets", "evaluation", "export", "models", "search", "serving", "zoo"},
    "__main__": {"cli"},
}


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
    assert rooms_known_to(room) <= ARROWS[room]


def test_no_module_imports_itself_through_others():
    order = TopologicalSorter({module: imports_of(file) - {module} for module, file in MODULES.items()})
    order.prepare()  # raises an error that names a circle


def test_function_bodies_are_short():
    lines = sorted(body_lines(function) for _, function in functions())
    assert len(lines) > 500
    assert lines[len(lines) // 2] < 6
    assert lines[len(lines) * 9 // 10] < 16


def test_pure_compute_is_keras_ops_only():
    for room in ("pairs", "layers", "importance", "losses", "miners", "models"):
        for file in (PACKAGE / room).glob("*.py"):
            assert "import tensorflow" not in file.read_text(), file
    assert "import tensorflow\n" not in (PACKAGE / "addons.py").read_text()


def test_every_public_name_is_there_and_an_unknown_one_is_named():
    for name in tfdml.__all__:
        assert getattr(tfdml, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'reducers'; it has addons, "):
        tfdml.reducers  # noqa: B018


ROOMS = [name for name in tfdml.__all__ if inspect.ismodule(getattr(tfdml, name))] + [
    "losses.uncertainty",
    "miners.offline",
]


@pytest.mark.parametrize("room", ROOMS)
def test_completion_shows_what_is_public_and_nothing_else(room):
    module = importlib.import_module(f"tfdml.{room}")
    shown = dir(module)
    assert set(shown) == {*module.__all__, *(["offline"] if room == "miners" else [])}
    for name in shown:
        thing = getattr(module, name)
        assert not name.startswith("_")
        assert inspect.ismodule(thing) == (f"{room}.{name}" in ("losses.uncertainty", "miners.offline"))
        assert getattr(thing, "__module__", "tfdml.").startswith("tfdml.")


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
