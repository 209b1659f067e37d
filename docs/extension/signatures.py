"""Signatures as a reader wants them: annotations as the source has them, defaults as short text."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, is_typeddict

from docs.extension.names import entries

_LONGEST_DEFAULT = 60


def signature(value: Any) -> str:
    """`(name: annotation = default, ...) -> annotation` of a function or a class; empty for what is not called."""
    if is_typeddict(value) or getattr(value, "_is_protocol", False):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    written = annotations(value)
    shown = [parameter.replace(annotation=parameter.empty, default=parameter.empty) for parameter in parameters]
    texts = {bare.name: _parameter(whole, bare, written) for whole, bare in zip(parameters, shown, strict=True)}
    returned = f" -> {written['return']}" if "return" in written and not inspect.isclass(value) else ""
    return f"({', '.join(_with_marks(shown, texts))}){returned}"


def _parameter(parameter, shown, written):
    text = str(shown)
    if parameter.name in written:
        text += f": {written[parameter.name]}"
    if parameter.default is not parameter.empty:
        text += f" = {default(parameter.default)}" if parameter.name in written else f"={default(parameter.default)}"
    return text


def _with_marks(parameters, texts) -> Iterator[str]:
    """Texts of parameters with the mark `*` before those that are passed by name only, where it is needed."""
    needs_mark = not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    for parameter in parameters:
        if needs_mark and parameter.kind is parameter.KEYWORD_ONLY:
            yield "*"
            needs_mark = False
        if parameter.name != "self":
            yield texts[parameter.name]


def default(value: Any) -> str:
    """A default as an expression: functions and classes by name, objects without a readable form by their type."""
    name = getattr(value, "__name__", None)
    text = name if name and callable(value) else repr(value)
    if _is_expression(text) and len(text) <= _LONGEST_DEFAULT:
        return text
    public = [entry.name for entry in entries().values() if entry.value is value]
    return "..." if "factory" in text else public[0] if public else f"{type(value).__name__}(...)"


def _is_expression(text):
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def annotations(value: Any) -> dict[str, str]:
    """The annotations of parameters, and of what is returned, as they are written in the source."""
    if inspect.isclass(value):
        texts: dict[str, str] = {}
        for base in reversed(value.__mro__):
            texts.update(_of_class(_definition(base)))
        return texts
    return _of_function(_definition(inspect.unwrap(getattr(value, "__func__", value))))


def _of_class(node):
    texts = {}
    for statement in getattr(node, "body", ()):
        if isinstance(statement, ast.AnnAssign):
            texts[ast.unparse(statement.target)] = ast.unparse(statement.annotation)
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            texts.update(_of_function(statement))
    return texts


def _of_function(node):
    if node is None:
        return {}
    variadic = [each for each in (node.args.vararg, node.args.kwarg) if each]
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *variadic]
    texts = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation}
    return texts | ({"return": ast.unparse(node.returns)} if node.returns else {})


def _definition(value):
    """The node of the source that defines a function or a class of tfdml."""
    return _definitions(getattr(value, "__module__", "")).get(getattr(value, "__qualname__", ""))


@cache
def _definitions(module: str) -> dict[str, Any]:
    if not module.startswith("tfdml"):
        return {}
    tree = ast.parse(Path(sys.modules[module].__file__ or "").read_text())
    return dict(_named(tree, ""))


def _named(node, prefix):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield prefix + child.name, child
            yield from _named(child, f"{prefix}{child.name}.")


def assigned(module: str, name: str) -> str:
    """The source of a value that a module assigns to a name, such as an alias of a type; empty without one."""
    tree = ast.parse(Path(sys.modules[module].__file__ or "").read_text())
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets) and node.value:
            return ast.unparse(node.value)
    return ""
