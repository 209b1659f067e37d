"""Lines of a training become lines of a page, and the photographs of the run are files."""

import re

import pytest

from studies import first_run


@pytest.mark.slow
def test_each_thing_is_a_folder_of_photographs(tmp_path):
    first_run.write_photos(tmp_path, views=2, most=2)
    assert [len(list(folder.iterdir())) for folder in tmp_path.iterdir()] == [2] * 6


def test_the_page_has_the_lines_of_a_whole_run():
    (text,) = re.findall(f"{first_run.MARK}\n```text\n(.*?)\n```", first_run.PAGE.read_text(), flags=re.DOTALL)
    lines = text.splitlines()
    assert lines[0] == f"$ tfdml train photos --out run {' '.join(first_run.OPTIONS)}"
    assert lines[-1] == "serve: tfdml serve run"
    assert any(line.startswith("epoch   1 of ") for line in lines)
