"""Re-identification: ways of mining triplets, and refinements of a search. The page is docs/reidentification.md."""

from studies.reidentification import choice, refinements, setting, triplets

PAGE = "docs/reidentification.md"
FIGURES = "docs/images/reidentification-{}.png"
STUDIES = {"choice": choice, "refinements": refinements, "triplets": triplets}
options = setting.options
