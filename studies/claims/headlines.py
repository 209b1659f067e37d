"""The headlines of the papers over all settings, and pairs of methods over the boards of the leaderboard."""

from studies.claims.evidence import BOARDS, GLYPH_FEATURES, GLYPHS, WHOLE_GLYPHS, board
from studies.claims.papers import WEIGHTED_CONTRASTIVE

WEIGHTS = ("balanced contrastive", "balanced contrastive, no weights")
DESIGNS = {one.setting: one for one in WEIGHTED_CONTRASTIVE[0].evidence}
# Claim, and the pairs of methods that decide it on a board.
HEADLINES = {
    "*Weighted contrastive*: importance weights help balanced batches": [WEIGHTS],
    "*Weighted contrastive*: with them, balanced contrastive is ahead of contrastive, triplet and n-pairs": [
        ("balanced contrastive", other) for other in ("contrastive", "triplet", "n-pairs")
    ],
    "*Gradient analysis*: weights by relative similarity are ahead of binomial deviance": [
        ("multi-similarity", "binomial deviance")
    ],
    "*Gradient analysis*: its miner adds to them (RAW)": [("RAW", "multi-similarity")],
    "*Sampling matters*: margin with distance-weighted negatives is ahead of random ones, and of other losses": [
        ("margin", other)
        for other in ("margin, random", "contrastive, distance weighted", "triplet, distance weighted")
    ],
    "*Robust pairs*: TopK, TopK-PN and KL are ahead of multi-similarity with its miner (RAW)": [
        (one, "RAW") for one in ("TopK", "TopK-PN", "KL")
    ],
}
# Two methods, and their difference in the tables of the paper.
COMPARISONS = (
    (*WEIGHTS, "+3.3"),
    ("balanced contrastive", "contrastive", "+3.6 to +10.2"),
    ("balanced contrastive", "weighted contrastive", "+0.9 to +8.0"),
    ("balanced contrastive", "triplet", "+0.0 to +12.4"),
    ("balanced contrastive", "n-pairs", "+0.9 to +2.8"),
    ("multi-similarity", "binomial deviance", "+0.5 to +3.6"),
    ("RAW", "multi-similarity", "+1.2 to +2.4"),
    ("margin", "margin, random", "+24.2"),
    ("margin", "margin, semi-hard", "+0.7"),
    ("margin", "contrastive, distance weighted", "+22.5"),
    ("margin", "triplet, distance weighted", "+7.2"),
    ("contrastive, distance weighted", "contrastive, random", "+9.1"),
    ("KL", "RAW", "+1.1 to +2.3"),
    ("TopK", "RAW", "+1.3 to +1.9"),
    ("TopK-PN", "RAW", "+1.6 to +2.0"),
    ("TopK of binomial", "RAW", "+1.0 to +2.4"),
    ("KL", "multi-similarity", ""),
    ("KL", "margin", "+4.1 to +6.8"),
    ("multi-similarity", "lifted structure", "-2.8 to +3.5"),
    ("batch hard", "triplet", "+1.7 to +5.7"),
)


def headline_evidence(effects, setting):
    """What decides a headline in a setting: the board, or the study of batch designs for the first; None if neither."""
    if effects == [WEIGHTS] and setting in (GLYPHS, GLYPH_FEATURES, WHOLE_GLYPHS):
        return DESIGNS[setting]
    return on_board(setting, effects)


def on_board(setting, effects):
    """The evidence of a board, or None if it has not all of the methods."""
    if setting not in BOARDS:
        return None
    made = board(setting, effects)
    return made if made.is_complete() else None
