"""Search in words: subjects by hand, and a quick run whose text model answers the command line."""

import json
import runpy
from pathlib import Path

import pytest

import tfdml
from tests.recipes import quick
from tfdml import cli


def test_images_that_share_a_caption_are_one_subject(tmp_path):
    """Image a shares a caption with b, b one with c; d has its own."""
    recipe = runpy.run_path(str(quick.RECIPES / "words.py"))
    table = tmp_path / "captions.csv"
    table.write_text("\ufeffpath,caption\na.png,red\nb.png,red\nb.png,round \nc.png,round\nd.png,green\n", "utf-8")
    paths, image_of, captions = recipe["read"](table)
    assert [Path(path).name for path in paths] == ["a.png", "b.png", "c.png", "d.png"]
    subjects, subject_of = recipe["subjects_of"](image_of, captions)
    assert len(set(subjects[:3])) == 1
    assert subjects[3] != subjects[0]
    assert subject_of.tolist() == [subjects[row] for row in image_of]


@pytest.mark.slow
def test_a_run_is_searched_by_words_and_only_with_its_own_text_model(tmp_path, monkeypatch, capsys):
    quick.run(monkeypatch, "words", tmp_path)
    assert "held-out captions" in capsys.readouterr().out
    run = tmp_path / "run"
    texts, index = tfdml.models.TextModel.load(run / "text"), tfdml.search.load(run / "index")
    assert not tfdml.zoo.check(run)
    words = ["search", str(run), str(run / "index"), "-k", "2", "--text", "glyph 3", "glyph 4"]
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ids, _ = index.search(texts(["glyph 3", "glyph 4"]), 2)
    assert [[neighbor["id"] for neighbor in each["neighbors"]] for each in found] == ids.tolist()
