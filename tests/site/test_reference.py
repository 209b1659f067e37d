"""The reference has every public name once, with a readable signature, and pages and names lead to each other."""

import ast
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable
from functools import cache

import pytest

import tfdml
from docs.extension import ROOT, names, pages, reference, signatures
from docs.extension.names import entries, meaning, mentions, rooms


@cache
def page(room):
    return reference.room_page(room, {})


def described(text):
    """The names that a page describes, without methods."""
    return re.findall(r"^`{4,6}\{py:(?:class|function|data)\} (\w+)", text, flags=re.MULTILINE)


@pytest.mark.parametrize("room", rooms())
def test_every_public_name_of_a_room_has_one_entry(room):
    module = importlib.import_module(room)
    public = [name for name in names.public(module) if not inspect.ismodule(getattr(module, name))]
    assert sorted(described(page(room))) == sorted(public)


def test_every_room_has_a_page_in_the_list():
    public = [name for name in tfdml.__all__ if inspect.ismodule(getattr(tfdml, name))]
    assert {f"tfdml.{name}" for name in public} <= set(rooms())
    listed = reference.index_page().partition(":hidden:")[2].strip("`\n ").split()
    assert listed == list(rooms())


@pytest.mark.parametrize("room", rooms())
def test_signatures_have_no_addresses_and_no_private_paths(room):
    headings = re.findall(r"^`{4,6}\{py:\w+\} (.*)", page(room), flags=re.MULTILINE)
    for heading in headings:
        assert not re.search(r" at 0x|<function|<class|<object|keras\.src|numpy\._typing", heading), heading
        ast.parse(f"def {heading if '(' in heading else heading + '()'}: pass")


def every(function: Callable[[int], str] = str.upper, *rest: int, flag: bool = False) -> list[str]:
    """A function."""
    return [function(each) for each in rest] * flag


def test_a_signature_has_annotations_as_they_are_written(monkeypatch):
    monkeypatch.setattr(signatures, "_definition", lambda value: signatures.ast.parse(inspect.getsource(value)).body[0])
    expected = "(function: Callable[[int], str] = upper, *rest: int, flag: bool = False) -> list[str]"
    assert signatures.signature(every) == expected


def test_the_same_object_in_two_rooms_is_described_in_the_one_that_defines_it():
    assert entries()["tfdml.evaluate"].home == "tfdml.evaluation.evaluate"
    assert "The same as `tfdml.evaluation.evaluate`." in page("tfdml")
    assert entries()["tfdml.models.embed"].home == "tfdml.models.embed"
    assert entries()["tfdml.distributed.embed"].home == "tfdml.distributed.embed"


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("tfdml.losses.TripletLoss", None, "tfdml.losses.TripletLoss"),
        ("losses.TripletLoss(margin=0.2)", None, "tfdml.losses.TripletLoss"),
        ("TripletLoss", None, "tfdml.losses.TripletLoss"),
        ("ContrastiveLoss", None, "tfdml.losses.ContrastiveLoss"),
        ("ContrastiveLoss", "tfdml.addons", "tfdml.addons.ContrastiveLoss"),
        ("tfdml.losses.uncertainty.TopK(8)", None, "tfdml.losses.uncertainty.TopK"),
        ("tfdml.models.EmbeddingModel.fit", None, "tfdml.models.EmbeddingModel"),
        ("tfdml.search", None, "tfdml.search"),
        ("embed", None, None),
        ("margin", None, None),
        ("margin", "tfdml.losses.functional", "tfdml.losses.functional.margin"),
        ("tfdml train photos", None, None),
        ("tfdml", None, None),
        ("model.fit", None, None),
        ("keras.Model", None, None),
    ],
)
def test_what_a_text_in_backticks_means(text, room, expected):
    assert meaning(text, room) == expected


def test_a_page_mentions_names_in_prose_and_in_code():
    text = "`TripletLoss` after\n\n```python\nloss = tfdml.losses.MarginLoss()\nmodel.fit(x)\n```\n"
    assert mentions(text) == {"tfdml.losses.TripletLoss", "tfdml.losses.MarginLoss"}


def test_names_lead_back_to_pages():
    uses = reference._uses(pages(), ROOT / "docs" / "api")
    assert "[Samplers](../samplers.md)" in uses["tfdml.samplers.GroupSampler"]
    text = reference.entry_text(entries()["tfdml.samplers.GroupSampler"], uses)
    assert ":Used in:\n" in text
    assert "[Samplers](../samplers.md)" in text


def test_dotted_names_in_docstrings_and_pages_are_there():
    docstrings = [inspect.getdoc(entry.value) or "" for entry in entries().values() if callable(entry.value)]
    texts = docstrings + [page.read_text() for page in pages()]
    dotted = {name for text in texts for name in re.findall(r"`(tfdml\.[a-z_]+\.[A-Za-z]\w*)", text)}
    assert len(dotted) > 100
    wrong = {name for name in dotted if meaning(name) in {None, *rooms()} and name not in rooms()}
    assert {name for name in wrong if importlib.util.find_spec(name) is None} == set()


def test_a_class_shows_the_methods_that_no_public_base_shows():
    margin = reference.entry_text(entries()["tfdml.losses.ContrastiveLoss"], {})
    assert "{py:method} pair_losses(pairs: Pairs) -> Tensor" in margin
    assert "{py:method} parameters" not in margin
    assert ":Base:\n  `tfdml.losses.PairLoss`" in margin
    assert "{py:method} parameters" in reference.entry_text(entries()["tfdml.losses.PairLoss"], {})


def test_pages_are_written_once(tmp_path):
    reference.write(tmp_path, [])
    first = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    reference.write(tmp_path, [])
    assert len(first) == len(names.rooms()) + 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == first
