"""Every reader of a public set is in the page of all of them, and shows the expected tree for a folder without it."""

import re
from pathlib import Path

import pytest

from tfdml.datasets import public

PAGE = (Path(__file__).parents[3] / "docs" / "public-sets.md").read_text()
FILES = Path(public.__file__).parent
READERS = [name for name in public.__all__ if name != "lfw_pairs"]


@pytest.mark.parametrize("reader", READERS)
def test_the_page_has_its_row_and_its_protocol(reader):
    (row,) = re.findall(rf"^\| `{reader}\(root.*$", PAGE, flags=re.MULTILINE)
    (protocol,) = re.findall(r"`([a-z0-9-]+/[a-z0-9/-]+/v1)`", row)
    source = "".join(path.read_text() for path in FILES.glob("*.py"))
    assert protocol.partition("/")[0] in source
    assert PAGE.count(f"`{protocol}`") == 2 or protocol.startswith("casia")  # with published numbers


@pytest.mark.parametrize("reader", READERS)
def test_a_folder_without_its_files_is_an_error_that_shows_the_tree(reader, tmp_path):
    with pytest.raises(ValueError, match=r"(?s)expected.*\n.*/|Expected.*\n.*/"):
        getattr(public, reader)(tmp_path)
