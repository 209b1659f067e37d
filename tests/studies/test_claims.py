"""What the papers claim; tests/studies/test_tables.py has the tables of the page."""

import pytest

from studies import __main__ as command
from studies.claims import evidence, headlines, page, papers

CLAIMS = [claim for claims in papers.PAPERS.values() for claim in claims]
EVIDENCE = [one for claim in CLAIMS for one in claim.evidence]


def test_the_studies_that_claims_name_are_there():
    for one in EVIDENCE:
        words = one.command.split()
        if len(words) == 3:
            assert words[2] in (*command.PAPERS[words[1]].STUDIES, "whole")


# A sentence of a page, the claim that it is about, and the verdict that it states.
STATEMENTS = """
    mining | Random negatives are the worst for all four | distance-weighted sampling is better than random | holds
    mining | is not clearly ahead of semi-hard | distance-weighted sampling is better than semi-hard | not seen
    mining | within 0.8 points of the best fixed boundary | learned boundaries beat every fixed one | in part
    mining | A boundary for each example adds nothing | boundaries per example are level with | holds
    mining | Mining does not add to it here | mining adds to weighting | not seen
    mining | gains 24 points without its easy pairs | the lifted structure loss is better without easy | holds
    mining | Not from scratch, and over binomial deviance far | robust losses over the margin loss | not seen
    verification | This is seen in part: it is ahead of the | the margin loss converges faster | in part
    verification | This is not seen: the thresholds of 2, 5 and 10 | the threshold of the margin loss | not seen
    reidentification | Paired by seed, this is [seen in part] | batch hard is better than all triplets | in part
    importance-sampling | **Confirmed.** Recall@1 has a plateau over | Recall@1 has a plateau in lambda | holds
    importance-sampling | better than none and than its square | the exact weight is better than its square | holds
    importance-sampling | **The peak is not at it** | the exact weight is better than any other: against 0.75 | not seen
    mining | are worse than equal ones | weighting adds to mining, for RAW and for binomial deviance | in part
    importance-sampling | Recall@1 is higher, too | weights improve Recall@1 of the contrastive loss | holds
    importance-sampling | weights add 11 to 16 points at every share | weights help at every imbalance | holds
"""

# A sentence under the headlines, a headline, the settings it speaks of, and the verdicts that it states there.
SUMMARY = """
    help wherever all layers are trained | importance weights help | all layers | holds
    ahead of most losses of its time from ImageNet | balanced contrastive is ahead | of ImageNet | holds, in part
    of none from scratch | balanced contrastive is ahead | from scratch | not seen
    help everywhere, a miner | weights by relative similarity are ahead | | holds
    a miner beside them nowhere | its miner adds | | not seen
    first on photo patches from ImageNet | *Robust pairs* | of ImageNet | holds
    and behind from scratch | *Robust pairs* | from scratch | not seen
"""


@pytest.mark.parametrize("line", SUMMARY.strip().splitlines())
def test_a_sentence_under_the_headlines_states_their_verdicts(line):
    sentence, headline, where, verdicts = map(str.strip, line.split("|"))
    assert sentence in " ".join(page.PAGE.read_text().split())
    (effects,) = [pairs for text, pairs in headlines.HEADLINES.items() if headline in text]
    settings = [setting for setting in evidence.SETTINGS if where in setting]
    found = [headlines.headline_evidence(effects, setting) for setting in settings]
    assert {one.verdict() for one in found if one} == set(verdicts.split(", "))


def test_more_trials_leave_less_of_the_lead_of_robust_losses():
    (robust,) = [one for one in CLAIMS if one.text.startswith("robust losses over the margin loss")]
    (tuned,) = [one for one in robust.evidence if one.setting == evidence.PHOTO_FEATURES]
    four = headlines.on_board(tuned.setting, [(name, "RAW") for name in papers.ROBUST_NAMES])
    assert (four.verdict(), tuned.verdict()) == ("holds", "in part")
    assert max(mean for mean, *_ in tuned.intervals()) < min(mean for mean, *_ in four.intervals())
    for name in ("claims", "mining"):
        assert "less of " in (page.PAGE.parent / f"{name}.md").read_text()


def test_random_negatives_are_worst_on_every_board():
    pairs = [(f"{loss}distance weighted", f"{loss}random") for loss in ("contrastive, ", "triplet, ")]
    pairs += [("margin", "margin, random"), ("margin, semi-hard", "margin, random")]
    made = [headlines.on_board(setting, [pair]) for setting in evidence.BOARDS for pair in pairs]
    assert {one.verdict() for one in made if one} == {"holds"}
    assert "Random ones are worst everywhere" in page.PAGE.read_text()


# Careful negatives, distance-weighted and semi-hard, of one loss.
CAREFUL = (
    ("margin", "margin, semi-hard"),
    ("triplet, distance weighted", "semi-hard triplet"),
    ("contrastive, distance weighted", "contrastive, semi-hard"),
    ("RAW, distance weighted", "RAW, semi-hard"),
)


def test_the_page_has_the_largest_difference_of_careful_negatives():
    pairs = [evidence.board(setting, [pair]) for setting in evidence.BOARDS for pair in CAREFUL]
    largest = max(abs(one.intervals()[0][0]) for one in pairs if one.is_complete())
    assert f"less: {largest:.1f} points at most" in page.PAGE.read_text()


@pytest.mark.parametrize("statement", STATEMENTS.strip().splitlines(), ids=lambda statement: statement.split("|")[2])
def test_a_sentence_of_a_page_states_the_verdict_of_the_rows(statement):
    page_name, sentence, claim, verdict = map(str.strip, statement.split(" | "))
    text = " ".join((page.PAGE.parent / f"{page_name}.md").read_text().split())
    assert sentence in text
    (found,) = [one for one in CLAIMS if one.text.startswith(claim)]
    assert found.evidence[0].verdict() == verdict
