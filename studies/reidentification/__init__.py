"""Re-identification: mined triplets, refinements of a search, vehicles. The page is docs/reidentification.md."""

from studies.reidentification import choice, refinements, setting, triplets, vehicles

PAGE = "docs/reidentification.md"
FIGURES = "docs/images/reidentification-{}.png"
STUDIES = {"choice": choice, "refinements": refinements, "triplets": triplets, "vehicles": vehicles}
options = setting.options
