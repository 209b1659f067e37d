"""Losses whose references are learned or remembered, beside losses of the batch. The page is docs/references.md."""

from studies.references import protocol, setting, summary
from studies.references.family import Family
from studies.references.methods import FAMILIES

PAGE = "docs/references.md"
FIGURES = "docs/images/references-{}.png"
STUDIES = {
    "protocol": protocol,
    **{name: Family(name, losses) for name, losses in FAMILIES.items()},
    "summary": summary,
}
options = setting.options
