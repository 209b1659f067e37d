"""Training without labels: a quick run leaves its rows, and the committed ones are five seeds of two sets."""

import pytest

from studies import runner, unlabeled


@pytest.mark.slow
def test_a_quick_run_measures_both_networks_on_both_parts(tmp_path, capsys):
    unlabeled.main(["--quick", "--output", str(tmp_path)])
    rows = runner.read_rows(tmp_path / "unlabeled.csv")
    assert [row["split"] for row in rows] == ["validation", "test"]
    assert all(0 < row["as it is map@r"] < 1 and row["views"] == 64 for row in rows)


def test_the_committed_rows_are_of_the_runs_and_all_passed_the_proof_and_are_better():
    rows = runner.read_rows(unlabeled.ROWS)
    runs = {(run.data, run.size, run.steps, run.images, run.seed) for run in unlabeled.Setting("").runs}
    for split in unlabeled.SPLITS:
        part = runner.where(rows, split=split)
        assert {tuple(row[key] for key in ("data", "size", "steps", "images", "seed")) for row in part} == runs
        assert all(row["core_seconds"] < 600 for row in part)
        assert all(min(row["difference low"], row["views low"]) > 0 for row in part)
    table = unlabeled.table(rows)
    assert table.count("\n") == 5


def test_the_page_has_each_candidate_on_the_validation_parts():
    rows, text = runner.read_rows(unlabeled.CHOICE), " ".join(unlabeled.PAGE.read_text().split())
    for candidate in unlabeled.CANDIDATES:
        values = [f"{100 * row['trained map@r']:.1f}" for row in runner.where(rows, candidate=candidate, seed=0)]
        assert values
        assert all(f"{patches} and {things}" in text for patches, things in zip(values[::2], values[1::2], strict=True))
