"""Every loss, and pairings of losses with miners and batches, under one protocol. The page is docs/leaderboard.md."""

from studies.leaderboard import protocol, scaling, setting, summary, whole
from studies.leaderboard.family import Family
from studies.leaderboard.methods import FAMILIES

PAGE = "docs/leaderboard.md"
FIGURES = "docs/images/leaderboard-{}.png"
STUDIES = {
    "protocol": protocol,
    **{name: Family(name, losses) for name, losses in FAMILIES.items()},
    "summary": summary,
    "scaling": scaling,
    "whole": whole,
}
options, result_of = setting.options, setting.result_of
