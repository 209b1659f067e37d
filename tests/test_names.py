"""Names say what they hold: placeholder nouns are no arguments, and few local variables."""

import ast
import collections
from pathlib import Path

import tfdml

PACKAGE = Path(tfdml.__file__).parent
PLACEHOLDERS = {
    "found",
    "part",
    "parts",
    "place",
    "places",
    "right",
    "about",
    "asked",
    "known",
    "some",
    "given",
    "own",
    "kept",
}
LOCALS = 40


def is_placeholder(name):
    return name in PLACEHOLDERS or name.startswith("of_")


def all_arguments(function):
    arguments = function.args
    others = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *others)]


def returned_names(function):
    """Names in the tuples that a function returns or yields."""
    for node in ast.walk(function):
        value = getattr(node, "value", None) if isinstance(node, ast.Return | ast.Yield) else None
        if isinstance(value, ast.Tuple):
            yield from (element.id for element in value.elts if isinstance(element, ast.Name))


def placeholders():
    """Placeholder names by their use: lists of (file, line, name)."""
    uses = collections.defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                uses["arguments"] += [(file, node.lineno, name) for name in all_arguments(node)]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                uses["returned"] += [(file, node.lineno, name) for name in returned_names(node)]
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                uses["locals"] += [(file, node.lineno, node.id)]
    return {
        use: [f"{file.relative_to(PACKAGE)}:{line} {name}" for file, line, name in names if is_placeholder(name)]
        for use, names in uses.items()
    }


def test_no_argument_and_no_returned_value_has_a_placeholder_name():
    names = placeholders()
    assert not names["arguments"] + names["returned"]


def test_few_local_variables_have_a_placeholder_name():
    assert len(placeholders()["locals"]) <= LOCALS


def test_no_docstring_begins_with_what():
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                assert not (ast.get_docstring(node) or "").startswith("What "), (file, node)
