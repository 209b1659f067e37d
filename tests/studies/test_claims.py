"""What the papers claim: the tables of the page, and what decides a verdict."""

import numpy as np
import pytest

from studies import __main__ as command
from studies.claims import evidence, page, papers, relative

CLAIMS = [claim for claims in papers.PAPERS.values() for claim in claims]
EVIDENCE = [one for claim in CLAIMS for one in claim.evidence]


def test_a_relative_improvement_is_the_mean_over_the_datasets_of_a_paper():
    gains = [54.22 / 50.61, 69.18 / 59.00, 70.36 / 65.20]  # CUB-200-2011, Cars196, Stanford Online Products
    improvement = relative.in_papers("weighted-contrastive", "balanced", "contrastive")
    assert improvement == pytest.approx(np.mean(gains) - 1)
    assert [relative.percent(share) for share in (improvement, -0.104, None)] == ["+11", "-10", ""]


def test_the_studies_that_claims_name_are_there():
    for one in EVIDENCE:
        words = one.command.split()
        if len(words) == 3:
            assert words[2] in (*command.PAPERS[words[1]].STUDIES, "whole")


# A sentence of a page, the claim that it is about, its setting, and the verdict that it states.
STATEMENTS = (
    (
        "mining",
        "Random negatives are the worst for all four losses",
        "distance-weighted sampling is better than random",
        "holds",
    ),
    (
        "mining",
        "is not clearly ahead of semi-hard negatives",
        "distance-weighted sampling is better than semi-hard",
        "not seen",
    ),
    ("mining", "within 0.8 points of the best fixed boundary", "learned boundaries beat every fixed one", "in part"),
    ("mining", "A boundary for each example adds nothing", "boundaries per example are level with", "holds"),
    ("mining", "Mining does not add to it here", "mining adds to weighting", "not seen"),
    ("mining", "gains 24 points without its easy pairs", "the lifted structure loss is better without easy", "holds"),
    ("mining", "Not from scratch, and over binomial deviance far", "robust losses over the margin loss", "not seen"),
    (
        "verification",
        "This is seen in part: it is ahead of the contrastive",
        "the margin loss converges faster",
        "in part",
    ),
    ("verification", "This is not seen: the thresholds of 2, 5 and 10", "the threshold of the margin loss", "not seen"),
    ("reidentification", "Paired by seed, this is [seen in part]", "batch hard is better than all triplets", "in part"),
    (
        "importance-sampling",
        "**Confirmed.** Recall@1 has a plateau over lambda",
        "Recall@1 has a plateau in lambda",
        "holds",
    ),
    (
        "importance-sampling",
        "**Confirmed for a suitable lambda.**",
        "the exact weight is better than its square",
        "holds",
    ),
    (
        "importance-sampling",
        "Recall@1 is higher, too",
        "weights improve Recall@1 of the contrastive loss",
        "holds",
    ),
    ("importance-sampling", "weights add 11 to 16 points at every share", "weights help at every imbalance", "holds"),
)


@pytest.mark.parametrize(("page_name", "sentence", "claim", "verdict"), STATEMENTS)
def test_a_sentence_of_a_page_states_the_verdict_of_the_rows(page_name, sentence, claim, verdict):
    text = " ".join((page.PAGE.parent / f"{page_name}.md").read_text().split())
    assert sentence in text
    (found,) = [one for one in CLAIMS if one.text.startswith(claim)]
    assert found.evidence[0].verdict() == verdict


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
