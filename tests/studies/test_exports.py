"""Recipes and studies use what tfdml exports, as its users do."""

import ast
from pathlib import Path

import pytest

import tfdml

ROOT = Path(__file__).parents[2]
SHARED = ("recipes.bn_inception.", "recipes.checks.", "recipes.things.", "recipes.two_domains.")
FILES = [path for room in ("recipes", "studies") for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_recipe_or_study_uses_only_what_tfdml_exports(path):
    rooms = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not [name.name for name in node.names if name.name.startswith("tfdml.")]
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "tfdml":
            assert node.module == "tfdml"
            rooms |= {name.name for name in node.names}
    assert rooms <= set(tfdml.__all__)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (room := room_of(node.value, rooms)):
            assert node.attr in dir(getattr(tfdml, room))


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_recipe_is_whole_in_its_file_or_folder_and_the_shared_modules(path):
    recipe = path.relative_to(ROOT / "recipes").parts[0]
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    imported = {f"{node.module}.{name.name}" for node in nodes for name in node.names}
    inside = {name for name in imported if f"{name}.".startswith(f"recipes.{recipe}.")}
    others = {"benchmarks", "docs", "recipes", "studies", "tests", "tools"}
    outside = {name for name in imported - inside if name.partition(".")[0] in others}
    assert not [name for name in outside if not f"{name}.".startswith(SHARED)]


def room_of(node, imported):
    """ "losses" for the nodes of `tfdml.losses`, and of `losses` where it is imported from tfdml; else None."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tfdml":
        return node.attr
    return node.id if isinstance(node, ast.Name) and node.id in imported else None
