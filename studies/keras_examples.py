"""The tables of docs/keras-examples.md: its blocks of code, run as they stand, with several seeds.

python -m studies.keras_examples                # three seeds, about six minutes of a core
"""

import json
import re

import tfdml
from studies import pages, runner

PAGE = pages.ROOT / "docs" / "keras-examples.md"
ROWS = pages.RESULTS / "keras_examples.json"
SEEDS = range(3)
TABLES = ("similarities", "accuracies")
PROTOCOL = "glyphs/class-disjoint/exact-cosine/v1"


def program(seed):
    """The code of the page, with another seed."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    code = "\n".join(blocks)
    for words in ("set_random_seed({})", "default_rng({})", "seed={}"):
        code = code.replace(words.format(0), words.format(seed))
    return code


def run(seed):
    """The dicts that the page prints at its ends, as floats, by name."""
    names = {}
    exec(compile(program(seed), str(PAGE), "exec"), names)
    return {
        table: {
            method: {key: float(value) for key, value in numbers.items()} for method, numbers in names[table].items()
        }
        for table in TABLES
    }


def table(runs, name):
    """Means over seeds, times 100, with halves of 95% intervals."""
    body = []
    for method, first in runs[0][name].items():
        body.append([method, *(pages.plus_minus([one[name][method][key] for one in runs]) for key in first)])
    return runner.markdown(["", *first], body, texts=(0,))


def filled(text):
    """The page with its tables."""
    record = json.loads(ROWS.read_text())
    words = (
        f"Means times 100 over {len(record['runs'])} seeds, with 95% intervals. `python -m studies.keras_examples` "
        f"runs the blocks of this page. Protocol of Recall@1: `{PROTOCOL}`.\n\n"
    )
    tables = {name: words + table(record["runs"], name) for name in TABLES}
    return pages.filled(text, tables, "studies/keras_examples")


if __name__ == "__main__":
    record = {"runs": [], **tfdml.environment()}
    for seed in SEEDS:
        record["runs"].append(run(seed))
        ROWS.write_text(json.dumps(record, indent=1) + "\n")
