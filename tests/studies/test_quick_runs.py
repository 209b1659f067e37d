"""Studies run quickly, and print or count the rows that they have found."""

import pytest

from studies import boxes, drift, fashion, labeling, migration, scores, stamps, words

PRINTED = {
    boxes: ("'query': 'whole image'", "'query': 'box'"),
    drift: ("'alarms': 1.0",),
    scores: ("'prior': 1.0", "'prior': 0.1", "'kept': 0.9"),
    words: ("images@1", "images map@r", "texts@1"),
    migration: ("'order': 'mixed'", "'order': 'classes'"),
    fashion: ("10 rows",),
    stamps: ("11 rows",),
    labeling: ("'rule': 'random', 'area'", "'proposals'", "'clicks': 1, 'gain'"),
}


@pytest.mark.parametrize(
    "study",
    [pytest.param(study, marks=[pytest.mark.slow] * (study in (fashion, migration, stamps))) for study in PRINTED],
    ids=lambda study: study.__name__,
)
def test_a_quick_run_has_rows(study, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "FOLDER", tmp_path, raising=False)
    monkeypatch.setattr(study, "SEEDS", (0,), raising=study is migration)
    study.main(["--quick"])
    printed = capsys.readouterr().out
    assert all(text in printed for text in PRINTED[study])
