"""The page of a comparison: one HTML file that needs no other file, no script and no network."""

import numpy as np

from tfdml._core.pages import Card, cards, escape, listed, table, terms
from tfdml._core.pages import page as report_page
from tfdml.evaluation.report.page import neighbor_card
from tfdml.visualize.pictures import thumbnails


def page(comparison):
    """The text of the page of a `ModelComparison`."""
    names = dict.fromkeys(group.by for group in comparison.groups)
    of_seeds = comparison.unit == "seeds"
    reasons = "".join(f"<p>{escape(reason)}</p>\n" for reason in comparison.reasons)
    caption = f"{comparison.main}; the intervals allow for neither groups nor models"
    sections = {
        "Models": table(f"Means over the {comparison.compared}", *comparison.table()) + reasons,
        **({"Pairs": _pairs(comparison)} if comparison.pairs else {}),
        **{f"By {name}": table(caption, *comparison.table_of_groups(name)) for name in names},
        **({"Queries that differ most": _queries(comparison)} if comparison.pairs and not of_seeds else {}),
        "Conditions": terms({**comparison.facts, **comparison.environment}),
    }
    header = "".join(f"<p>{escape(sentence)}</p>\n" for sentence in comparison.sentences)
    return report_page("Comparison", sections, header=header)


def _pairs(comparison):
    text = (
        f"Mean differences of {comparison.main} over the same {comparison.compared}. Holm's p corrects for these"
        " pairs; a model is called better if its p is at most 1 - confidence and the interval does not contain 0."
    )
    power = "".join(f"<p>{escape(sentence)}</p>\n" for sentence in comparison.power)
    return table(text, *comparison.table_of_pairs()) + power


def _queries(comparison):
    """The best model and each other one: the queries with the largest differences."""
    best = max(comparison.means, key=lambda model: comparison.means[model][comparison.main].value)
    pairs = [pair for pair in comparison.pairs if best in pair.comparison.names]
    pictures = _pictures(comparison, pairs)
    text = "The model with the highest mean and each one beside it in a pair: queries, and their nearest items by both."
    return f"<p>{text}</p>\n" + "".join(
        f"<h3>{escape(' and '.join(pair.comparison.names))}</h3>\n"
        + listed((_query(comparison, pair, row, pictures) for row in pair.queries), "queries")
        for pair in pairs
    )


def _query(comparison, pair, row, pictures):
    rows = []
    for model in pair.comparison.names:
        neighbors = [neighbor_card(neighbor, pictures[1]) for neighbor in _neighbors(comparison, model, row)]
        rows.append(cards([_query_card(comparison, model, row, pictures[0]), *neighbors]))
    return "".join(rows)


def _query_card(comparison, model, row, pictures):
    value = comparison.value_text(comparison.per_query[model][comparison.main][row])
    name = comparison.query_names[row]
    caption = f"<b>{escape(model)}</b><br>{escape(comparison.main)}: {value}"
    return Card(name, caption, image=pictures.get(row, ""), alt=name, kind="query")


def _pictures(comparison, pairs):
    """Pictures of the queries and of the items on the page: two dicts of row to data URI."""
    queries, items = set(), set()
    for model, row in {(model, row) for pair in pairs for model in pair.comparison.names for row in pair.queries}:
        queries.add(row)
        items.update(neighbor.example.row for neighbor in _neighbors(comparison, model, row))
    return tuple(_readable_pictures(data, rows) for data, rows in zip(comparison.sets, (queries, items), strict=True))


def _neighbors(comparison, model, row):
    return comparison.neighbors.get(model, {}).get(row, ())


def _readable_pictures(data, rows):
    if data is None or not rows:
        return {}
    listed_rows = np.array(sorted(rows))
    unreadable = [row for row, *_ in data.take(listed_rows).unreadable_files()]
    return thumbnails(data, np.delete(listed_rows, unreadable).tolist())
