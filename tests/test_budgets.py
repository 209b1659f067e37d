"""The budgets of the checks add up to what CONTRIBUTING.md promises, and each test is in one part of TensorFlow."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from tests.conftest import GROUPS, REST, TIERS

PARTS = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text())
CI = ["lint", "test", "docs", "browser", "ci"]


@pytest.mark.parametrize(("groups", "processor_seconds"), [(["test"], 600), (CI, 2000), (["lint", "check"], 180)])
def test_the_budgets_of_a_command_are_within_its_time_on_two_cores(groups, processor_seconds):
    assert sum(part["processor_seconds"] for part in PARTS.values() if part["group"] in groups) <= processor_seconds


def test_ci_runs_the_parts_whose_budgets_are_summed():
    lines = (Path(__file__).parents[1] / ".ci" / "run").read_text()
    assert {*re.findall(r'PART="?([\w ]+)"? HOLD', lines)} == {"lint", "docs browser", "ci"}
    assert "\nmake test HOLD" in lines


def parts_of(*marks):
    """The parts of TensorFlow that run a test with these marks."""
    on_tensorflow = {name: part for name, part in PARTS.items() if "environment" not in part and name != "check"}
    expressions = {name: part["pytest"].split("'")[1] for name, part in on_tensorflow.items() if "pytest" in part}
    names = dict.fromkeys([*GROUPS, REST, *TIERS], False) | dict.fromkeys(marks, True)
    return [name for name, expression in expressions.items() if eval(expression, names)]


@pytest.mark.parametrize(("group", "tier"), [*itertools.product([*GROUPS, REST], TIERS)])
def test_a_test_is_in_one_part_of_its_tier_or_a_later_one(group, tier):
    (name,) = parts_of(group, tier)
    later = list(TIERS)[list(TIERS).index(tier) :]
    assert PARTS[name]["group"] in later
    assert group in ("examples", "programs") or PARTS[name]["group"] == tier


def test_every_folder_of_a_group_is_there():
    folder = Path(__file__).parent
    assert [name for names in GROUPS.values() for name in names if not (folder / name).exists()] == []
