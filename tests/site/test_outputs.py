"""Tutorials on the site show what their code prints and draws."""

import json

from docs.extension.outputs import outputs_by_source


def test_each_block_of_code_has_the_last_lines_and_the_pictures_of_its_cell():
    outputs = [
        {"output_type": "stream", "text": [f"line {number}\n" for number in range(12)]},
        {"output_type": "execute_result", "data": {"image/png": "aGVsbG8=\n", "text/plain": "<Figure>"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["print(1)"]},
        {"cell_type": "code", "source": ["draw()\n", "show()"], "outputs": outputs},
        {"cell_type": "code", "source": ["silent()"], "outputs": []},
    ]
    shown = outputs_by_source(json.dumps({"cells": cells}))
    assert list(shown) == ["draw()\nshow()", "silent()"]
    text, picture = shown["draw()\nshow()"]
    assert text.astext().splitlines() == ["...", *(f"line {number}" for number in range(3, 12))]
    assert 'src="data:image/png;base64,aGVsbG8="' in picture.astext()
    assert shown["silent()"] == []
