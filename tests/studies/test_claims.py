"""What the papers claim: the tables of the page, and what decides a verdict."""

import numpy as np
import pytest

from studies import __main__ as command
from studies.claims import __main__ as page
from studies.claims import evidence, papers

CLAIMS = [claim for claims in papers.PAPERS.values() for claim in claims]
EVIDENCE = [one for claim in CLAIMS for one in claim.evidence]


def test_the_tables_of_the_page_are_those_of_the_committed_rows():
    text = page.PAGE.read_text()
    assert page.filled(text) == text


def test_the_studies_that_claims_name_are_there():
    for one in EVIDENCE:
        words = one.command.split()
        if len(words) == 3:
            assert words[2] in (*command.PAPERS[words[1]].STUDIES, "whole")


def test_only_one_study_waits_for_a_larger_machine():
    assert {one.command for one in EVIDENCE if one.verdict() == "not run"} == {"studies importance_sampling all_pairs"}


@pytest.mark.parametrize(
    ("intervals", "equal", "expected"),
    [
        ([(3, 1, 5), (2, 0.1, 4)], False, "holds"),
        ([(3, 1, 5), (2, -0.1, 4)], False, "in part"),
        ([(-3, -5, -1), (2, -0.1, 4)], False, "not seen"),
        ([(0.1, -1.9, 1.9)], True, "holds"),
        ([(0.1, -2.1, 1.9)], True, "not seen"),
    ],
)
def test_intervals_decide_the_verdict(intervals, equal, expected):
    assert evidence.verdict(intervals, equal=equal) == expected


def test_an_effect_is_paired_by_seed(monkeypatch):
    rows = [
        {"method": name, "seed": seed, "recall@1": 0.5 + gain + seed / 10}
        for name, gain in (("a", 0.02), ("b", 0.0))
        for seed in (0, 1, 2)
    ]
    monkeypatch.setattr(evidence, "rows_of", lambda name: rows)
    one = evidence.Evidence("", "", ("rows.csv",), (({"method": "a"}, {"method": "b"}),))
    np.testing.assert_allclose(one.differences(), [[2.0, 2.0, 2.0]])
    assert page.effects_text([(1, 0, 2), (3, 2, 4), (2, 1, 3)]) == "+1.0 [+0.0, +2.0] to +3.0 [+2.0, +4.0], of 3"


def test_a_spread_is_over_the_rows_of_each_seed():
    scores = {("a", 1): 0.2, ("b", 1): 0.5, ("a", 2): 0.7, ("b", 2): 0.6}
    rows = [{"method": name, "seed": seed, "recall@1": score} for (name, seed), score in scores.items()]
    both = ({"method": "a"}, {"method": "b"})
    assert evidence.scores_by_seed(rows, both, "recall@1") == pytest.approx({1: -0.3, 2: -0.1})


def test_settings_that_leave_several_rows_of_a_seed_are_an_error():
    rows = [{"method": "a", "seed": 0, "recall@1": 0.5}] * 2
    with pytest.raises(ValueError, match="2 rows have"):
        evidence.scores_by_seed(rows, {"method": "a"}, "recall@1")
