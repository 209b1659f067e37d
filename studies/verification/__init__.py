"""Verification in "Sampling matters": convergence, stable thresholds, and losses. The page is docs/verification.md."""

from studies.verification import curves, losses, setting, untouched

PAGE = "docs/verification.md"
FIGURES = "docs/images/verification-{}.png"
STUDIES = {"untouched": untouched, "curves": curves, "losses": losses}
options = setting.options
