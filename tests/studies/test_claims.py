"""What the papers claim: the table of the page, and what decides a verdict."""

import numpy as np
import pytest

from studies import __main__ as command
from studies import claims, pages


def test_the_table_of_the_page_is_that_of_the_committed_rows():
    page = (pages.ROOT / claims.PAGE).read_text()
    assert claims.filled(page) == page


def test_the_studies_that_claims_name_are_there():
    for claim in claims.CLAIMS:
        words = claim.command.split()
        if len(words) == 3:
            assert words[2] in command.PAPERS[words[1]].STUDIES


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
    assert claims.verdict(intervals, equal=equal) == expected


def test_an_effect_is_paired_by_seed():
    rows = [
        {"method": name, "seed": seed, "recall@1": 0.5 + gain + seed / 10}
        for name, gain in (("a", 0.02), ("b", 0.0))
        for seed in (0, 1, 2)
    ]
    claim = claims.Claim("", "", "", "", effects=(({"method": "a"}, {"method": "b"}),))
    np.testing.assert_allclose(claims.differences(claim, rows), [[2.0, 2.0, 2.0]])
    assert claims.effects_text([(1, 0, 2), (3, 2, 4), (2, 1, 3)]) == "+1.0 [+0.0, +2.0] to +3.0 [+2.0, +4.0], of 3"


def test_settings_that_leave_several_rows_of_a_seed_are_an_error():
    rows = [{"method": "a", "seed": 0, "recall@1": 0.5}] * 2
    claim = claims.Claim("", "", "", "", effects=(({"method": "a"}, {"method": "a"}),))
    with pytest.raises(ValueError, match="Received 2 rows with"):
        claims.differences(claim, rows)
