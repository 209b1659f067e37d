"""Table 7 of "Sampling matters": the margin loss beside others that decide faces, on the same training classes."""

from dataclasses import replace

from studies import pages, runner
from studies.verification import setting

METHODS = (("softmax", 128), ("N-pairs", 320), ("triplet", 128), ("contrastive", 128), ("margin", 128), ("margin", 256))
PER_CLASS = {"softmax": 1, "N-pairs": 2}  # images; 5 of all other losses


def rows(options):
    """One row per run, with its accuracy on pairs of test classes."""
    methods = METHODS[-1:] if options.quick else METHODS
    runs = [replace(options.base, loss=loss, dim=dim, per_class=PER_CLASS.get(loss, 5)) for loss, dim in methods]
    results = setting.over_seeds(runs, options)
    about = ("core_seconds", "protocol", "hardware", "versions")
    return [{**result["run"], **result["test"], **{key: result[key] for key in about}} for result in results]


def tables(rows):
    """Mean accuracy of each loss with its interval over seeds."""
    body = []
    for loss, dim in dict.fromkeys((row["loss"], row["dim"]) for row in rows):
        values = [100 * row["accuracy"] for row in runner.where(rows, loss=loss, dim=dim)]
        mean, low, high = pages.interval(values)
        rate = runner.where(rows, loss=loss, dim=dim)[0]["learning_rate"]
        body.append([loss, int(dim), f"{rate:g}", f"{mean:.2f}", f"[{low:.2f}, {high:.2f}]"])
    head = ["loss", "dimension", "learning rate", "accuracy, %", "95% interval over seeds"]
    return {"losses": runner.markdown(head, body)}
