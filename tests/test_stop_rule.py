"""What is public has a user: names and options that nothing takes are listed here, and the lists may only shrink."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

from docs.extension.names import rooms

ROOT = Path(__file__).parents[1]
CODE = ("recipes", "studies", "benchmarks", "tools")
# The most lines of each kind. A change that needs more raises its number, and its commit says why.
LINES = {"tfdml/*.py": 60_000, "tests/*.py": 50_000, "docs/*.md": 16_000}


class Uses:
    """The identifiers of a piece of code, and the keywords and texts that may name an option."""

    def __init__(self, text):
        nodes = list(ast.walk(ast.parse(text)))
        self.calls = [node for node in nodes if isinstance(node, ast.Call)]
        self.names = {node.id for node in nodes if isinstance(node, ast.Name)}
        self.names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        self.names |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
        self.options = {keyword.arg for call in self.calls for keyword in call.keywords}
        self.options |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}

    def positional(self, name):
        """The largest number of positional arguments with which a name is called."""
        found = [len(call.args) for call in self.calls if _last(call.func) == name]
        return max(found, default=0)


def _last(node):
    return getattr(node, "attr", getattr(node, "id", None))


@cache
def files():
    """The code outside the package, and of the package by room: lists of (room, uses)."""
    of_package = [path for path in ROOT.glob("tfdml/**/*.py") if path.name != "__init__.py"]
    others = [path for folder in CODE for path in ROOT.glob(f"{folder}/**/*.py")]
    return [(path.relative_to(ROOT).parts[:2][-1], Uses(path.read_text())) for path in [*of_package, *others]]


@cache
def pages():
    """The Python code of each page."""
    paths = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/**/*.md")]
    texts = [path.read_text() for path in paths if "_build" not in path.parts]
    code = ("\n".join(re.findall(r"^```python.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)) for text in texts)
    return [Uses(text) for text in code if text]


def public():
    """Names of rooms, as `room.name`, with what they stand for."""
    for room in rooms():
        module = inspect.importlib.import_module(room)
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value):
                yield f"{room.removeprefix('tfdml').strip('.')}.{name}".strip("."), value


def has_user(name):
    """Whether code outside the room takes a name, or two pages, of which one may be its own."""
    room, _, last = name.rpartition(".")
    outside = (uses for where, uses in files() if where != room.partition(".")[0])
    return any(last in uses.names for uses in outside) or sum(last in uses.names for uses in pages()) > 1


def unused_options(name, value):
    """The options of a callable that no code and no page passes."""
    last = name.rpartition(".")[2]
    taking = [uses for _, uses in files() if last in uses.names] + [uses for uses in pages() if last in uses.names]
    passed = max((uses.positional(last) for uses in taking), default=0)
    options = [
        option.name
        for place, option in enumerate(parameters(value))
        if option.default is not option.empty and (option.kind is option.KEYWORD_ONLY or place >= passed)
    ]
    return [option for option in options if not any(option in uses.options for uses in taking)]


def parameters(value):
    """The parameters of a function or class; none where it has no signature."""
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return []
