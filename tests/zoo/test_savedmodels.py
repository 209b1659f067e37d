"""The models of this repository."""

import runpy
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from recipes import things
from tests.zoo.cards import write_entry
from tfdml import zoo
from tfdml._core.checksums import problems
from tfdml.export.saved_model import CHECKSUMS
from tfdml.zoo.card import page
from tfdml.zoo.publishing import file_sizes

ROOT = Path(__file__).parents[2]
OF_A_STUDY = "things"  # tests/studies/test_things_entry.py has its card
NAMES = sorted(path.parent.name for path in (ROOT / "savedmodels").glob("*/model.json"))


def test_the_table_of_the_models_is_current():
    assert (ROOT / "savedmodels" / "README.md").read_text() == zoo.list_models(ROOT / "savedmodels").markdown()


def test_the_models_are_those_of_the_recipe():
    recipe = runpy.run_path(str(ROOT / "recipes" / "zoo.py"))
    assert sorted([*recipe["RUNS"], OF_A_STUDY]) == NAMES
    for name in recipe["RUNS"]:
        card = zoo.card(name, root=ROOT / "savedmodels")
        assert card.selection == recipe["CHOICES"][name]
        assert card.training.items() >= recipe["settings"](recipe["RUNS"][name]).items()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_and_its_saved_models_are_whole(name):
    assert zoo.check(name, root=ROOT / "savedmodels") == ()
    saved_models = [path.parent for path in (ROOT / "savedmodels" / name).rglob("saved_model.pb")]
    assert [problems(folder, CHECKSUMS) for folder in saved_models] == [()] * max(1, len(saved_models))


def test_all_models_take_less_than_40_mb_and_the_recipe_makes_models_of_less_than_3_mb():
    sizes = {name: sum(file_sizes(ROOT / "savedmodels" / name).values()) for name in NAMES}
    assert sum(sizes.values()) < 40e6
    assert max(size for name, size in sizes.items() if name != OF_A_STUDY) < 3e6


@pytest.mark.parametrize("name", NAMES)
def test_each_saved_model_holds_every_weight_once_in_two_bytes(name):
    card = zoo.card(name, root=ROOT / "savedmodels")
    sizes = [size for file, size in card.sizes.items() if file.endswith(".data-00000-of-00001")]
    assert len(sizes) == max(1, len(card.towers))
    for size in sizes:
        assert 2 * card.parameters <= size < 2.1 * card.parameters


@pytest.mark.slow
def test_entries_are_exported_again_with_the_same_weights_and_numbers(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "savedmodels" / "glyphs-2d", tmp_path / "glyphs-2d")
    before = zoo.card("glyphs-2d", root=tmp_path).as_dict()
    weights = (tmp_path / "glyphs-2d" / "model.keras").read_bytes()
    (tmp_path / "glyphs-2d" / "1" / "saved_model.pb").rename(tmp_path / "saved_model.pb")
    monkeypatch.setattr("sys.argv", ["export_zoo.py", "--root", str(tmp_path)])
    with pytest.raises(ValueError, match=r"1/saved_model\.pb: missing"):
        runpy.run_path(str(ROOT / "tools" / "export_zoo.py"), run_name="__main__")
    (tmp_path / "saved_model.pb").rename(tmp_path / "glyphs-2d" / "1" / "saved_model.pb")
    runpy.run_path(str(ROOT / "tools" / "export_zoo.py"), run_name="__main__")
    assert zoo.check("glyphs-2d", root=tmp_path) == ()
    assert (tmp_path / "glyphs-2d" / "model.keras").read_bytes() == weights
    after = zoo.card("glyphs-2d", root=tmp_path).as_dict()
    assert {name for name in after if after[name] != before[name]} == {"sizes", "timing"}
    assert problems(tmp_path / "glyphs-2d" / "1", CHECKSUMS) == ()
    reader = tf.train.load_checkpoint(str(tmp_path / "glyphs-2d" / "1" / "variables" / "variables"))
    exported = [reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    expected = [weight.astype("float16") for weight in zoo.load("glyphs-2d", root=tmp_path).get_weights()]
    assert sorted(each.tobytes() for each in exported) == sorted(each.tobytes() for each in expected)
    assert (tmp_path / "README.md").read_text() == zoo.list_models(tmp_path).markdown()


def test_pages_are_written_again_and_no_other_file_changes(tmp_path, monkeypatch):
    entry = write_entry(tmp_path, "squares")
    before = (entry / "model.json").read_bytes()
    monkeypatch.setattr("sys.argv", ["export_zoo.py", "--pages", "--root", str(tmp_path)])
    runpy.run_path(str(ROOT / "tools" / "export_zoo.py"), run_name="__main__")
    assert (entry / "README.md").read_text() == page(zoo.card("squares", root=tmp_path))
    assert (entry / "model.json").read_bytes() == before
    assert sorted(path.name for path in entry.iterdir()) == ["README.md", "SHA256SUMS", "model.json"]


# The others embed whole sets by the same road.
BY_NIGHT = [name if name == "photo-patches-small" else pytest.param(name, marks=pytest.mark.nightly) for name in NAMES]


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NIGHT)
def test_the_numbers_of_a_card_are_reproduced(name):
    data = things.things(("test",))[0] if name == OF_A_STUDY else None
    found = zoo.evaluate(name, root=ROOT / "savedmodels", data=data)
    assert found.agrees, found
