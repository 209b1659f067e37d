"""Every reader of a public set is in the page of all of them, and shows the expected tree for a folder without it."""

import re
from pathlib import Path

import pytest

from tfdml.datasets import public
from tfdml.datasets.public import faces, few_shot, reidentification, retrieval

PAGE = (Path(__file__).parents[3] / "docs" / "public-sets.md").read_text()
FILES = Path(public.__file__).parent
READERS = [name for name in public.__all__ if name != "lfw_pairs"]

CHECKED = {
    "cars196": retrieval.COUNTS["cars196"],
    "cub200": retrieval.COUNTS["cub200-2011"],
    "in_shop": retrieval.COUNTS["in-shop"],
    "lfw": {"faces": faces.COUNTS["lfw"], **{name: (pairs,) for name, (pairs, _) in faces.LISTS.items()}},
    "market1501": reidentification.MARKET_COUNTS,
    "mini_imagenet": few_shot.MINI_IMAGENET,
    "omniglot": {"characters": [*few_shot.CHARACTERS.values(), *few_shot.LISTED.values(), few_shot.DRAWERS]},
    "stanford_online_products": retrieval.COUNTS["sop"],
    "vehicle_id": reidentification.VEHICLE_COUNTS,
}


@pytest.mark.parametrize("reader", READERS)
def test_the_numbers_that_are_checked_are_in_the_docstring(reader):
    numbers = set(re.findall(r"\d+", getattr(public, reader).__doc__.replace(",", "")))
    checked = {str(count) for counts in CHECKED[reader].values() for count in counts if count is not None}
    assert checked <= numbers


@pytest.mark.parametrize("reader", READERS)
def test_the_page_has_its_row_and_its_protocol(reader):
    (row,) = re.findall(rf"^\| `{reader}\(root.*$", PAGE, flags=re.MULTILINE)
    (protocol,) = re.findall(r"`([a-z0-9-]+/[a-z0-9/-]+/v1)`", row)
    source = "".join(path.read_text() for path in FILES.glob("*.py"))
    assert protocol.partition("/")[0] in source
    assert PAGE.count(f"`{protocol}`") == 2  # with published numbers


@pytest.mark.parametrize("reader", READERS)
def test_a_folder_without_its_files_is_an_error_that_shows_the_tree(reader, tmp_path):
    with pytest.raises(ValueError, match=r"(?s)expected.*\n.*/|Expected.*\n.*/"):
        getattr(public, reader)(tmp_path)
