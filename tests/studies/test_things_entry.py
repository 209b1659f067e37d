"""The entry of the zoo for things: its card, and the whole story with tiny networks."""

import keras
import numpy as np
import pytest

import tfdml
from studies import pages, runner, stamps, things_entry


def test_the_table_and_the_card_have_the_rows_of_three_seeds():
    rows = runner.read_rows(things_entry.ROWS)
    card = tfdml.zoo.card(things_entry.NAME, root=pages.ROOT / "savedmodels")
    seeds = runner.where(rows, model=things_entry.NAME)
    assert [row["seed"] for row in seeds] == [0, 1, 2]
    assert abs(seeds[0]["things recall@1"] - card.metrics["recall@1"].value) < 1e-4
    assert {row["things protocol"] for row in rows} == {card.protocol}
    assert card.training.items() >= things_entry.SETTINGS.items()
    assert (card.selection, card.limitations) == (things_entry.SELECTION, things_entry.LIMITS)


@pytest.mark.slow
def test_a_quick_run_writes_an_entry_of_rounded_weights_and_trains_nothing_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.chdir(things_entry.PAGE.parents[1])
    monkeypatch.setattr(stamps, "VIEWS", 2)
    things_entry.main(["--quick"])
    printed = capsys.readouterr().out
    assert "| things | 0.0 |" in printed
    assert f"| {things_entry.OTHER} | 0.4 |" in printed
    root = tmp_path / "runs" / "quick" / "things_entry" / "savedmodels"
    card, loaded = tfdml.zoo.card(things_entry.NAME, root=root), tfdml.zoo.load(things_entry.NAME, root=root)
    assert card.protocol == "things/photograph-disjoint/exact-cosine/v1"
    for weight in loaded.get_weights():
        np.testing.assert_array_equal(weight, weight.astype("float16"))
    kept = next((root.parent).glob("*.keras"))
    for weight, exact in zip(loaded.weights, keras.saving.load_model(kept, compile=False).weights, strict=True):
        np.testing.assert_allclose(weight, exact, rtol=1e-3, atol=1e-7)
    things_entry.main(["--quick"])
    assert " trained: " not in capsys.readouterr().out
