"""The budgets of the checks add up to what CONTRIBUTING.md promises, and the parts leave no file of tests out."""

import re
import tomllib
from pathlib import Path

import pytest

PARTS = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text())


@pytest.mark.parametrize(
    ("groups", "processor_seconds"), [(["test"], 1200), (["test", "more"], 4000), (["lint", "check"], 180)]
)
def test_the_budgets_of_a_command_are_within_its_time_on_two_cores(groups, processor_seconds):
    assert sum(part["processor_seconds"] for part in PARTS.values() if part["group"] in groups) <= processor_seconds


@pytest.mark.parametrize(
    ("rest", "others"),
    [
        ("retrieval", ["losses", "training", "pages", "more-examples"]),
        (
            "more-retrieval",
            [
                "more-losses",
                "more-training",
                "more-models",
                "more-runs",
                "more-export",
                "more-distributed",
                "more-pages",
                "more-examples",
                "more-notebooks",
                "more-recipes",
                "more-studies",
                "more-benchmarks",
            ],
        ),
        ("more-losses", ["more-compiled"]),
        ("more-jax-rooms", ["jax", "more-jax-models"]),
    ],
)
def test_what_a_part_ignores_is_in_another_part(rest, others):
    ignored = re.findall(r"--ignore=(\S+)", PARTS[rest]["pytest"])
    paths = [path for other in others for path in PARTS[other]["pytest"].split("' ")[1].split()]
    assert sorted(ignored) == sorted(path for path in paths if not path.startswith("--"))
