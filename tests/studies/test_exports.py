"""Recipes and studies use what tfdml exports, as its users do."""

import ast
from pathlib import Path

import pytest

import tfdml

ROOT = Path(__file__).parents[2]
FILES = [path for room in ("recipes", "studies") for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_recipe_or_study_imports_only_exported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert all(name.name.split(".") == ["tfdml"] for name in node.names if name.name.startswith("tfdml"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfdml"):
            assert node.module == "tfdml"
            assert {name.name for name in node.names} <= set(tfdml.__all__)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_recipe_or_study_reads_only_public_names_of_a_room(path):
    rooms = {name for name in tfdml.__all__ if hasattr(getattr(tfdml, name), "__all__")}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and (room := room_of(node.value)) in rooms:
            assert node.attr in getattr(tfdml, room).__all__


def room_of(node):
    """ "losses" of the nodes of `tfdml.losses` and `losses`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tfdml":
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
