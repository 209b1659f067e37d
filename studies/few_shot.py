"""Few-shot training on glyphs: five seeds of recipes/few_shot.py, and the table of docs/few-shot.md.

    python -m studies.few_shot                # trains, measures the test classes, writes rows and table
    python -m studies.few_shot --only-table   # the table, from the kept rows

The learning rates of the recipe are the best of 0.001, 0.003 and 0.01 on validation classes, seed 0; those of the heads
were chosen on half of the validation classes, after training with the other half.
"""

import argparse
import statistics
import time

import numpy as np

import tfdml
from recipes import few_shot as recipe
from studies import pages, runner

ROWS, PAGE = pages.RESULTS / "few_shot.csv", pages.ROOT / "docs" / "few-shot.md"
MARK = "<!-- table of studies/few_shot -->"
SEEDS = range(5)
SETTINGS = recipe.DATASETS["glyphs"]
TUNED = "zoo, tuned heads"


def rows():
    """The accuracy of each kind of training and each seed on the test classes."""
    train, validation, test = map(recipe.splittable, tfdml.datasets.glyphs(validation=True))
    for kind, rate in zip(recipe.DISTANCES, SETTINGS.rates, strict=True):
        for seed in SEEDS:
            begin = time.process_time()
            network = recipe.trained(kind, rate, train, SETTINGS, seed)
            seconds = time.process_time() - begin
            embeddings = tfdml.models.embed(network, recipe.small(test))
            yield row(kind, seed, embeddings, test, recipe.DISTANCES[kind], seconds)
    trunks, model = recipe.heads(recipe.ZOO)
    features = recipe.embedded_by(trunks, test)
    untouched = tfdml.models.embed(model, features)
    yield row("zoo, best model", 0, untouched[:, :128], test, "cosine", 0.0)
    yield row("zoo, three models", 0, untouched, test, "cosine", 0.0)
    both = np.concatenate([recipe.embedded_by(trunks, each) for each in (train, validation)])
    labels = np.concatenate([train.labels, validation.labels + len(train.class_names)])
    for seed in SEEDS:
        begin, (_, model) = time.process_time(), recipe.heads(recipe.ZOO)
        recipe.tune(model, both, labels, 150, seed)
        yield row(TUNED, seed, tfdml.models.embed(model, features), test, "cosine", time.process_time() - begin)


def row(kind, seed, embeddings, test, distance, seconds):
    """One line of the results."""
    values = recipe.scores(embeddings, test, SETTINGS, distance)
    numbers = {name: value["accuracy"] for name, value in values.items()}
    return {"kind": kind, "seed": seed, **numbers, "seconds": round(seconds, 1)}


def table(results):
    """Mean and 95% interval over seeds, as a Markdown table."""
    body = []
    for kind in dict.fromkeys(result["kind"] for result in results):
        chosen = runner.where(results, kind=kind)
        seconds = statistics.mean(result["seconds"] for result in chosen)
        body.append([kind, len(chosen), *(cell(chosen, name) for name in SETTINGS.tasks), f"{seconds:.0f}"])
    head = ["", "seeds", *SETTINGS.tasks, "seconds"]
    return runner.markdown(head, body, ["---", *["---:"] * (len(head) - 1)])


def cell(chosen, name):
    """Mean in percent, with the half-width of its interval if there are several seeds."""
    values = [100 * result[name] for result in chosen]
    if len(values) == 1:
        return f"{values[0]:.1f}"
    low, high = tfdml.metrics.seed_interval(values)
    return f"{statistics.mean(values):.1f} ± {(high - low) / 2:.1f}"


def filled(page=PAGE):
    """The text of the page with its table."""
    return pages.replaced(page.read_text(), MARK, table(runner.read_rows(ROWS)))


def main():
    """Train, write the rows and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only-table", action="store_true", help="train nothing")
    if not parser.parse_args().only_table:
        runner.write_rows(ROWS, list(rows()))
    PAGE.write_text(filled())


if __name__ == "__main__":
    main()
