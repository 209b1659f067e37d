"""The page has the lines of a training."""

import re

from studies import first_run


def test_the_page_has_the_lines_of_a_whole_run():
    (text,) = re.findall(f"{first_run.MARK}\n```text\n(.*?)\n```", first_run.PAGE.read_text(), flags=re.DOTALL)
    lines = text.splitlines()
    assert lines[0] == f"$ tfdml train photos --out run {' '.join(first_run.OPTIONS)}"
    assert lines[-1] == "serve: tfdml serve run"
    assert any(line.startswith("epoch   1 of ") for line in lines)
