"""Table 7 of "Sampling matters": the margin loss beside others that decide faces, on the same training classes."""

from dataclasses import replace

import tfdml
from studies import runner

METHODS = (("softmax", 128), ("N-pairs", 320), ("triplet", 128), ("contrastive", 128), ("margin", 128), ("margin", 256))


def rows(options):
    """One row per run, with its accuracy on pairs of test classes."""
    methods = METHODS[-1:] if options.quick else METHODS
    runs = [replace(options.base, loss=loss, dim=dim, per_class=2 if loss == "N-pairs" else 5) for loss, dim in methods]
    results = runner.finished(runner.over_seeds(runs, options), options)
    about = ("core_seconds", "protocol", "hardware", "versions")
    return [{**result["run"], **result["test"], **{key: result[key] for key in about}} for result in results]


def tables(rows):
    """Mean accuracy of each loss with its interval over seeds."""
    body = []
    for loss, dim in dict.fromkeys((row["loss"], row["dim"]) for row in rows):
        values = [100 * row["accuracy"] for row in runner.where(rows, loss=loss, dim=dim)]
        low, high = tfdml.metrics.seed_interval(values) if len(values) > 1 else 2 * values
        body.append([loss, int(dim), f"{sum(values) / len(values):.2f}", f"[{low:.2f}, {high:.2f}]"])
    return {"losses": runner.markdown(["loss", "dimension", "accuracy, %", "95% interval over seeds"], body)}
