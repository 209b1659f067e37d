"""The page of an evaluation: one HTML file that needs no other file, no script and no network."""

import base64

from tfdml._core.pages import Card, cards, escape, listed, table, terms
from tfdml._core.pages import page as report_page
from tfdml.evaluation.report.comparison import interval_text, paired_differences, require_same_queries
from tfdml.evaluation.report.figures import (
    DARK,
    LIGHT,
    THIS,
    draw_precision_recall,
    draw_recall,
    draw_similarities,
    svg,
)
from tfdml.metrics.statistics.confidence import least_classes
from tfdml.visualize.pictures import thumbnails

_INTERVAL = "95% interval over classes"


def page(evaluation, baselines, *, title="Evaluation", sentence=""):
    """The text of the page of an `Evaluation`, beside others of the same queries by name, under a sentence."""
    require_same_queries(evaluation, baselines)
    return report_page(
        title,
        _sections(evaluation, baselines, _pictures(evaluation)),
        header=f"<p>{escape(f'{_first_neighbors(evaluation)} {sentence}')}</p>\n{terms(evaluation.summary)}",
        head_title=f"{title}: {evaluation.protocol}",
    )


def _first_neighbors(evaluation):
    value, interval = _measured(evaluation.metrics["precision@1"])
    interval = f"{_INTERVAL}: {interval}" if evaluation.classes >= least_classes() else f"no {_INTERVAL}"
    return f"The nearest item has the class of the query for {value}% of the queries ({interval})."


def _sections(evaluation, baselines, pictures):
    rows = [(name, *_measured(mean)) for name, mean in evaluation.metrics.items()]
    comparisons = "".join(_comparison(evaluation, *baseline) for baseline in baselines.items())
    return {
        "Metrics": table("Means over the queries, in %", ("metric", "value", _INTERVAL), rows),
        **({"Baselines": comparisons} if baselines else {}),
        "Curves": _curves(evaluation, baselines),
        "Hardest queries": _hardest(evaluation, pictures),
        "Classes most confused": _confusions(evaluation),
        "Nearest pairs": _duplicates(evaluation, pictures),
        "Suspected label errors": _suspects(evaluation, pictures),
        "Conditions": terms({"seed": str(evaluation.seed), **evaluation.environment}),
    }


def _comparison(evaluation, name, baseline):
    rows = [
        (metric, *_measured(evaluation.metrics[metric]), *_measured(baseline.metrics[metric]), *_points(difference))
        for metric, difference in paired_differences(evaluation, baseline).items()
    ]
    caption = "Means in %, the mean difference of the same queries in points, and intervals over classes"
    heads = ("metric", THIS, "95% interval", name, "95% interval", "difference", "95% interval")
    rows = [[text.partition(":")[0] for text in row] for row in rows]  # why there is none stands in the first table
    return f"<h3>{escape(name)}</h3>\n{table(caption, heads, rows)}"


def _measured(mean):
    return f"{100 * mean.value:.1f}", mean.interval


def _points(comparison):
    return f"{100 * comparison.difference:+.1f}", interval_text(comparison.low, comparison.high, "+.1f")


def _curves(evaluation, baselines):
    shared = (
        (draw_recall, "Recall@k over k: share of the queries with a correct item among the first k.", _recall_text),
        (draw_precision_recall, "Interpolated precision over recall, a mean over queries.", _precision_text),
    )
    caption = "Similarities of positive and negative pairs: less overlap is better."
    figures = [_figure(evaluation, baselines, *figure) for figure in shared]

    def histogram(axes, each, theme, _):
        draw_similarities(axes, each, theme, {THIS: evaluation, **baselines})  # axes of all

    figures.append(_figure(evaluation, {}, histogram, caption, _pairs_text))
    for name, baseline in baselines.items():
        caption = f"{name}: similarities of positive and negative pairs."
        figures.append(_figure(baseline, {}, histogram, caption, _pairs_text))
    return f'<div class="figures">{"".join(figures)}</div>\n'


def _recall_text(evaluation):
    x, y = evaluation.recall
    return ", ".join(f"{100 * y[i]:.1f}% at k = {x[i]:,.0f}" for i in (0, len(x) // 2, -1)) + "."


def _precision_text(evaluation):
    y = evaluation.precision_recall.y
    precisions = ", ".join(f"{100 * y[len(y) * i // 4]:.1f}% at recall {25 * i}%" for i in range(1, 4))
    return f"{evaluation.curve_queries:,} queries: {precisions}."


def _pairs_text(evaluation):
    edges, *counts = evaluation.similarities
    centers = (edges[1:] + edges[:-1]) / 2
    means = [f"{count @ centers / max(1, count.sum()):.2f}" for count in counts]
    return f"Means: {means[0]} of {counts[0].sum():,} positive pairs, {means[1]} of {counts[1].sum():,} negative pairs."


def _figure(evaluation, baselines, draw, caption, describe):
    """A figure for light and for dark screens; the browser chooses."""
    texts = (svg(draw, evaluation, theme, baselines) for theme in (LIGHT, DARK))
    caption = escape(caption)
    descriptions = [describe(evaluation), *(f"{escape(name)}: {describe(each)}" for name, each in baselines.items())]
    light, dark = (f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}" for text in texts)
    return (
        f'<figure><picture><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" alt="{caption}"></picture>'
        f"<figcaption>{caption} {' '.join(descriptions)}</figcaption></figure>\n"
    )


def _hardest(evaluation, pictures):
    rows = [
        _row(f"first correct at rank {query.rank:,}", query.query, query.neighbors, pictures)
        for query in evaluation.hardest
    ]
    text = "Queries whose first correct item ranks last, or is the least similar, each with its nearest neighbors."
    return _rows(text, rows)


def _confusions(evaluation):
    rows = [
        (error.class_name, error.other, f"{error.errors:,} of {error.queries:,}", f"{error.errors / error.queries:.0%}")
        for error in evaluation.confusions
    ]
    caption = "Queries of a class whose first neighbor has another class"
    return table(caption, ("class", "taken for", "queries", "share"), rows)


def _duplicates(evaluation, pictures):
    rows = [
        _row("same class" if pair.neighbor.relevant else "other class", pair.query, [pair.neighbor], pictures)
        for pair in evaluation.near_duplicates
    ]
    text = (
        "The nearest pairs. The similarity of exact copies is 1; if their classes differ, one of the labels is wrong."
    )
    return _rows(text, rows, "pairs")


def _suspects(evaluation, pictures):
    rows = [
        _row(f"{suspect.agreeing} neighbors agree on {suspect.suggested}", suspect.query, suspect.neighbors, pictures)
        for suspect in evaluation.label_suspects
    ]
    return _rows(f"{evaluation.suspects:,} queries whose first three neighbors or more agree on another class.", rows)


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
    queries, neighbors = set(), set()
    for record in (*evaluation.hardest, *evaluation.label_suspects, *evaluation.near_duplicates):
        queries.add(record.query.row)
        listed = record.neighbors if hasattr(record, "neighbors") else [record.neighbor]
        neighbors.update(neighbor.example.row for neighbor in listed)
    data, gallery = evaluation.sets
    if data is gallery:
        return (thumbnails(data, queries | neighbors),) * 2
    return thumbnails(data, queries), thumbnails(gallery, neighbors)
