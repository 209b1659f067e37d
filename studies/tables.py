"""Fills the tables of all pages from the rows, records and settings that are kept: `python -m studies.tables`.

A table of a study stands between `<!-- NAME of SOURCE -->` and `<!-- end of table -->`. A table of a benchmark stands
between `<!-- results/NAME.csv: columns -->` and `<!-- end -->`; it leaves out columns without a value. A column has
another name after "as". After a semicolon a column selects the rows of a page, in the order of its values:
`batch: 64 / 4096`.
`python -m tools.tables` makes the tables of losses, miners and samplers.
"""

import csv
import re

from studies import __main__ as command
from studies import (
    boxes,
    cleaning,
    drift,
    ensembles,
    fashion,
    few_shot,
    fixed_features,
    glyphs,
    glyphs_choice,
    judge,
    labeling,
    late_interaction,
    migration,
    pages,
    patches,
    photo_patches,
    photo_starts,
    precision,
    recipe_tables,
    runner,
    scores,
    stamps,
    things,
    things_entry,
    tracking,
    unlabeled,
    words,
)
from studies.claims import page as claims

# The studies whose tables are made of one file of rows, and a function of the rows that returns tables by name.
OF_ROWS = {
    boxes: lambda rows: {"boxes": boxes.table(rows)},
    drift: lambda rows: {"alarms": drift.table(rows)},
    fashion: fashion.tables,
    fixed_features: lambda rows: {"table": fixed_features.table(rows)},
    judge: judge.tables,
    late_interaction: lambda rows: {"gains": late_interaction.table(rows)},
    migration: lambda rows: {"curves": migration.table(rows)},
    scores: scores.tables,
    stamps: stamps.tables,
    things: lambda rows: {"table": things.table(rows)},
    things_entry: lambda rows: {"things": things_entry.table(rows)},
    unlabeled: lambda rows: {"table": unlabeled.table(rows)},
    words: lambda rows: {"words": words.table(rows)},
}
# Studies whose tables have files of their own, or no line about the machine.
OTHERS = (
    cleaning,
    claims,
    few_shot,
    glyphs,
    glyphs_choice,
    labeling,
    patches,
    photo_patches,
    photo_starts,
    precision,
    tracking,
)
BENCHMARKS = ["losses/proxies", "clustering", "speed", "distributed"]
BENCHMARKS += ["model-upgrades", "jax-and-gpus"]


def of_rows(study):
    """A function of the text of a page that fills the tables of a study of `OF_ROWS`."""

    def filled(text):
        rows = runner.read_rows(study.ROWS)
        return pages.filled(text, OF_ROWS[study](rows), study.__name__.replace(".", "/"))

    return filled


def of_paper(name):
    """A function of the text of a page that fills the tables of all studies of a paper."""
    return lambda text: command.filled(text, name, command.PAPERS[name].STUDIES, pages.RESULTS / name)


def of_benchmarks(text):
    """The text of a page with the tables of benchmarks."""
    return re.sub(r"(<!-- (\S+\.csv): (.*?) -->\n).*?(<!-- end -->)", _of_columns, text, flags=re.DOTALL)


def _of_columns(found):
    rows = list(csv.DictReader((pages.ROOT / found[2]).read_text().splitlines()))
    columns, *limits = found[3].split("; ")
    for name, _, values in (limit.partition(": ") for limit in limits):
        rows = [row for value in values.split(" / ") for row in rows if row[name] == value]
    for keys in (("device", "measured", "versions"), ("gpu",)):
        if len({tuple(row[key] for key in keys) for row in rows if row.get(keys[0])}) > 1:
            raise ValueError(f"Received rows of {found[2]} of two days or cards of a GPU, expected one. Select rows.")
    named = (each.partition(" as ") for each in columns.split(", "))
    titles = {column: title or column for column, _, title in named if any(row[column] for row in rows)}
    body = [[_cell(row[column]) for column in titles] for row in rows]
    body = [titles.values(), ["---", *["---:"] * (len(titles) - 1)], *body]
    lines = [f"| {' | '.join(cells)} |" for cells in body]
    return "\n".join([found[1] + lines[0], *lines[1:], "", f"{rows[0]['hardware']}; {rows[0]['versions']}.", found[4]])


def _cell(value):
    try:
        return value if value.isdigit() else f"{float(value):.4g}"
    except ValueError:
        return value


# (page, function of its text that fills the tables of one source), by the source.
FILLED = {
    **{study.__name__: (study.PAGE, of_rows(study)) for study in OF_ROWS},
    **{study.__name__: (study.PAGE, study.filled) for study in OTHERS},
    **{f"studies.{name}": (pages.ROOT / paper.PAGE, of_paper(name)) for name, paper in command.PAPERS.items()},
    **{f"studies.ensembles of {page.name}": (page, filled) for page, filled in ensembles.FILLED.items()},
    **{f"recipes.{name}": (page, filled) for name, (page, filled) in recipe_tables.FILLED.items()},
    **{
        f"benchmarks of {page.name}": (page, of_benchmarks)
        for page in (pages.ROOT / "benchmarks" / "README.md", *(pages.ROOT / f"docs/{name}.md" for name in BENCHMARKS))
    },
}

if __name__ == "__main__":
    for page, filled in FILLED.values():
        page.write_text(filled(page.read_text()))
