"""The page of an evaluation: one HTML file that needs no other file, no script and no network."""

import base64
from functools import partial
from itertools import chain

import numpy as np

from tfdml._core.pages import Card, cards, escape, listed, table, terms
from tfdml._core.pages import page as report_page
from tfdml.evaluation.details.figures import DARK, LIGHT, draw_precision_recall, draw_recall, draw_similarities, svg
from tfdml.visualize.pictures import thumbnails

_SHOWN = 5  # neighbors of a query that two models are compared by


def page(evaluation, title, verdict):
    """The text of the page of an `Evaluation`; its verdict comes first."""
    sentences = [verdict, *evaluation.sentences]
    return report_page(
        f"{title}, {evaluation.date}",
        {heading: text for heading, text in _sections(evaluation).items() if text},
        header="".join(f"<p>{escape(sentence)}</p>\n" for sentence in sentences),
        head_title=f"{title}: {evaluation.protocol}" if evaluation.protocol else title,
    )


def _sections(evaluation):
    pictures = _pictures(evaluation)
    first = next(iter(evaluation.details.values()), None)
    names = dict.fromkeys(group.by for group in evaluation.groups)
    caption = f"{evaluation.main}; the intervals allow for neither groups nor models"
    return {
        "Good and bad answers": _examples(evaluation, pictures),
        "Means": table(f"Means over the {evaluation.compared}", *evaluation.table()) + _sentences(evaluation.reasons),
        "Pairs": _pairs(evaluation),
        **{f"By {name}": table(caption, *evaluation.table_of_groups(name)) for name in names},
        "Queries that differ most": _differing(evaluation, pictures),
        **({} if first is None else _detail_sections(evaluation.details, first, pictures)),
        "Conditions": terms({**evaluation.facts, **evaluation.environment}),
    }


def _sentences(texts):
    return "".join(f"<p>{escape(text)}</p>\n" for text in texts)


def _examples(evaluation, pictures):
    """A row of the best answers and a row of the worst ones, each query beside its nearest item."""
    best, answers = evaluation.best, evaluation.neighbors.get(evaluation.best, {})
    whose = f" by {best}" if len(evaluation.means) > 1 else ""
    text = ""
    for rows, kind in ((evaluation.good, "highest"), (evaluation.bad, "lowest")) if answers else ():
        head = f"Queries of {len(rows)} classes with the {kind} {evaluation.main}{whose}, each beside its nearest item:"
        pairs = [
            (
                _value_card(evaluation, best, row, pictures[0]),
                *(neighbor_card(x, pictures[1]) for x in answers[row][:1]),
            )
            for row in rows
        ]
        text += f"<p>{escape(head)}</p>\n{cards(chain(*pairs))}"
    return text


def _value_card(evaluation, model, row, pictures, head=""):
    """The card of a query, with the value of the main metric of a model, below a head of HTML."""
    value = f"{evaluation.scale * evaluation.per_query[model][evaluation.main][row]:.4g}"
    name = evaluation.query_names[row]
    caption = f"{head}{escape(evaluation.main)}: {value}"
    return Card(name, caption, image=pictures.get(row, ""), alt=name, kind="query")


def _pairs(evaluation):
    if not evaluation.pairs:
        return ""
    text = (
        f"Mean differences of {evaluation.main} over the same {evaluation.compared}. Holm's p corrects for these"
        " pairs; a model is called better if its p is at most 1 - confidence and the interval does not contain 0."
    )
    return table(text, *evaluation.table_of_pairs()) + _sentences(evaluation.power)


def _differing(evaluation, pictures):
    """The best model and each other one: the queries with the largest differences."""
    pairs = [pair for pair in evaluation.pairs if evaluation.best in pair.comparison.names and pair.queries]
    if not pairs or evaluation.unit == "seeds":
        return ""
    text = "The model with the highest mean and each one beside it in a pair: queries, and their nearest items by both."
    return f"<p>{text}</p>\n" + "".join(
        f"<h3>{escape(' and '.join(pair.comparison.names))}</h3>\n"
        + listed((_answers(evaluation, pair, row, pictures) for row in pair.queries), "queries")
        for pair in pairs
    )


def _answers(evaluation, pair, row, pictures):
    rows = []
    for model in pair.comparison.names:
        neighbors = evaluation.neighbors.get(model, {}).get(row, ())[:_SHOWN]
        query = _value_card(evaluation, model, row, pictures[0], f"<b>{escape(model)}</b><br>")
        rows.append(cards([query, *(neighbor_card(neighbor, pictures[1]) for neighbor in neighbors)]))
    return "".join(rows)


def _detail_sections(details, first, pictures):
    """Curves of all models, and the examples of the first one."""
    return {
        "Curves": _curves(details),
        "Hardest queries": _hardest(first, pictures),
        "Classes most confused": _confusions(first),
        "Nearest pairs": _duplicates(first, pictures),
        "Suspected label errors": _suspects(first, pictures),
    }


def _curves(details):
    shared = (
        (draw_recall, "Recall@k over k: share of the queries with a correct item among the first k.", _recall_text),
        (draw_precision_recall, "Interpolated precision over recall, a mean over queries.", _precision_text),
    )
    figures = [_figure(details, *figure) for figure in shared]
    for name, each in details.items():
        subject = f"{name}: similarities" if len(details) > 1 else "Similarities"
        caption = f"{subject} of positive and negative pairs: less overlap is better."
        figures.append(_figure({name: each}, partial(draw_similarities, shared=details.values()), caption, _pairs_text))
    return f'<div class="figures">{"".join(figures)}</div>\n'


def _recall_text(details):
    x, y = details.recall
    return ", ".join(f"{100 * y[i]:.1f}% at k = {x[i]:,.0f}" for i in (0, len(x) // 2, -1)) + "."


def _precision_text(details):
    y = details.precision_recall.y
    precisions = ", ".join(f"{100 * y[len(y) * i // 4]:.1f}% at recall {25 * i}%" for i in range(1, 4))
    return f"{details.curve_queries:,} queries: {precisions}."


def _pairs_text(details):
    edges, *counts = details.similarities
    centers = (edges[1:] + edges[:-1]) / 2
    means = [f"{count @ centers / max(1, count.sum()):.2f}" for count in counts]
    return f"Means: {means[0]} of {counts[0].sum():,} positive pairs, {means[1]} of {counts[1].sum():,} negative pairs."


def _figure(details, draw, caption, describe):
    """A figure for light and for dark screens; the browser chooses."""
    texts = (svg(draw, details, theme) for theme in (LIGHT, DARK))
    caption = escape(caption)
    heads = {name: f"{escape(name)}: " if len(details) > 1 else "" for name in details}
    descriptions = [heads[name] + describe(each) for name, each in details.items()]
    light, dark = (f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}" for text in texts)
    return (
        f'<figure><picture><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" alt="{caption}"></picture>'
        f"<figcaption>{caption} {' '.join(descriptions)}</figcaption></figure>\n"
    )


def _hardest(details, pictures):
    rows = [
        _row(f"first correct at rank {query.rank:,}", query.query, query.neighbors, pictures)
        for query in details.hardest
    ]
    text = "Queries whose first correct item ranks last, or is the least similar, each with its nearest neighbors."
    return _rows(text, rows)


def _confusions(details):
    rows = [
        (error.class_name, error.other, f"{error.errors:,} of {error.queries:,}", f"{error.errors / error.queries:.0%}")
        for error in details.confusions
    ]
    caption = "Queries of a class whose first neighbor has another class"
    return table(caption, ("class", "taken for", "queries", "share"), rows)


def _duplicates(details, pictures):
    rows = [
        _row("same class" if pair.neighbor.relevant else "other class", pair.query, [pair.neighbor], pictures)
        for pair in details.near_duplicates
    ]
    text = (
        "The nearest pairs. The similarity of exact copies is 1; if their classes differ, one of the labels is wrong."
    )
    return _rows(text, rows, "pairs")


def _suspects(details, pictures):
    rows = [
        _row(f"{suspect.agreeing} neighbors agree on {suspect.suggested}", suspect.query, suspect.neighbors, pictures)
        for suspect in details.label_suspects
    ]
    return _rows(f"{details.suspects:,} queries whose first three neighbors or more agree on another class.", rows)


def _rows(text, rows, kind="queries"):
    return f"<p>{escape(text)}</p>\n{listed(rows, kind)}"


def _row(note, query, neighbors, pictures):
    caption = f"<b>{escape(query.class_name)}</b><br>{escape(note)}"
    first = _example_card("query", query, caption, pictures[0])
    return cards([first, *(neighbor_card(neighbor, pictures[1]) for neighbor in neighbors)])


def neighbor_card(neighbor, pictures):
    """The card of a neighbor; `pictures` are data URIs by row."""
    kind, mark, word = ("right", "\u2713", "correct") if neighbor.relevant else ("wrong", "\u2717", "wrong")
    name = escape(neighbor.example.class_name)
    caption = f'<span class="mark" role="img" aria-label="{word}">{mark}</span> {neighbor.similarity:.3f}<br>{name}'
    return _example_card(kind, neighbor.example, caption, pictures)


def _example_card(kind, example, caption, pictures):
    alt = f"{example.class_name}, {example.name}"
    return Card(example.name, caption, image=pictures.get(example.row, ""), alt=alt, kind=kind)


def _pictures(evaluation):
    """Pictures of the queries and of the items on the page: two dicts of row to data URI."""
    queries = set(evaluation.query_names)
    items = {
        neighbor.example.row
        for by_row in evaluation.neighbors.values()
        for neighbors in by_row.values()
        for neighbor in neighbors[:_SHOWN]
    }
    for details in list(evaluation.details.values())[:1]:
        for record in (*details.hardest, *details.label_suspects, *details.near_duplicates):
            queries.add(record.query.row)
            neighbors = record.neighbors if hasattr(record, "neighbors") else [record.neighbor]
            items.update(neighbor.example.row for neighbor in neighbors)
    data, gallery = evaluation.sets
    if data is gallery:
        return (_readable_pictures(data, queries | items),) * 2
    return _readable_pictures(data, queries), _readable_pictures(gallery, items)


def _readable_pictures(data, rows):
    if data is None or not rows:
        return {}
    listed_rows = np.array(sorted(rows))
    unreadable = [row for row, *_ in data.take(listed_rows).unreadable_files()]
    return thumbnails(data, np.delete(listed_rows, unreadable).tolist())
