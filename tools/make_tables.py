"""Tables of all losses, miners and samplers, from the code: `python -m tools.make_tables` writes them into the pages.

A row is a public class. What it accepts and what it does is tried on a small batch, its times are those of
`benchmarks/losses.py` and its retrieval is that of `studies/references`. A table stands between
`<!-- losses of tools/make_tables -->` and `<!-- end of table -->`.
"""

import csv
import inspect
import re
import sys

import numpy as np
import tensorflow as tf

from studies import pages, runner
from studies.references import setting
from studies.references.methods import METHODS
from tfdml import layers, losses, miners, pairs, samplers

DOCS = pages.ROOT / "docs"
SOURCE = "tools/make_tables"
LABELS = np.repeat(np.arange(3), 4)
X = np.random.default_rng(0).standard_normal((12, 8)).astype("float32") / np.sqrt(8)
TIMED = {"batch": "1024", "dim": "128"}
SCALES = (0.3, 1.0, 3.0)  # of embeddings, since some losses are 0 for near pairs or for far ones


# Losses


def base_loss():
    """A loss for losses of losses."""
    return losses.ContrastiveLoss()


ARGUMENTS = {
    "base": base_loss,
    "class_counts": lambda: {0: 4, 1: 4, 2: 4},
    "classes": lambda: 3,
    "dims": lambda: (4, 4),
    "function": lambda: losses.contrastive,
    "losses": lambda: [base_loss(), losses.NCALoss()],
    "tree": lambda: layers.ClassTree(range(3)),
    "uncertainty": lambda: losses.uncertainty.TopK(8),
}
OTHER_ARGUMENTS = {"MatryoshkaLoss": {"dims": (4, 8)}}


def make_loss(loss_class, **options):
    """A loss of a class with the arguments that its signature has, and with its defaults otherwise."""
    names = inspect.signature(loss_class).parameters.keys() & ARGUMENTS.keys()
    if "pairing" in options:
        names -= {"classes"}
    arguments = {name: ARGUMENTS[name]() for name in names}
    return loss_class(**{**arguments, **OTHER_ARGUMENTS.get(loss_class.__name__, {}), **options})


def inputs_of(loss):
    """Labels and predictions of a small batch in the form that a loss takes."""
    family = type(loss).__module__.split(".")[2]
    if family == "distillation":
        return np.flip(X, axis=1)[:, :5].copy(), X
    if family == "pair_scores":
        return np.arange(12) % 2, X[:, 0]
    if getattr(loss, "pairing", None) is pairs.two_towers:
        return np.arange(12), np.stack([X, np.flip(X, axis=0)], axis=1)
    return LABELS, X


def values_and_gradient(loss, labels, x):
    """One value per anchor and the gradient of their sum by the embeddings, as arrays."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = loss.call(labels, x)
    return values.numpy(), tape.gradient(values, x).numpy()


def is_learning(loss_class, pairing, labels):
    """Whether a loss over another pairing has a gradient in every second and in every other row of its list."""
    gradients = []
    for scale in SCALES:
        try:
            loss = make_loss(loss_class, pairing=pairing)
            gradients.append(values_and_gradient(loss, labels, scale * X)[1])
        except (ValueError, TypeError):
            return False
    has_gradient = np.any(gradients, axis=(0, 2))
    return all(has_gradient[labels == label].any() for label in np.unique(labels))


def lists_of(loss_class):
    """Data without class ids that a loss learns from."""
    kinds = {
        "pairs": (pairs.labeled_pairs, np.repeat([1, 0, 1, 0, 1, 0], 2)),
        "triplets": (pairs.triplet_rows, np.zeros(12, int)),
        "views": (pairs.two_views, np.zeros(12, int)),
    }
    return ", ".join(name for name, (pairing, labels) in kinds.items() if is_learning(loss_class, pairing, labels))


def is_normalizing(loss):
    """Whether a loss of embeddings three times as long has the same values."""
    labels, x = inputs_of(loss)
    short, long = (loss.call(labels, scale * x) for scale in (1.0, 3.0))
    return bool(np.allclose(short, long, rtol=1e-3, atol=1e-5))


def takes_memory(loss_class):
    """Whether a loss may be compared with remembered embeddings, which then change its values."""
    try:
        loss = make_loss(loss_class, pairing=layers.Memory(24, warm_up=0))
        before = loss.call(LABELS, X)
        loss.pairing.update(LABELS, np.flip(X, axis=1).copy())
        return not np.allclose(before, loss.call(LABELS, X))
    except (ValueError, TypeError):
        return False


def takes_proxies(loss_class):
    """Whether the references of a loss may be one learned proxy per class."""
    try:
        loss = make_loss(loss_class, pairing=layers.Proxies(3))
        return bool(np.isfinite(loss.call(LABELS, X)).all())
    except (ValueError, TypeError):
        return False


def takes_blocks(loss_class):
    """Whether a loss has the same values in blocks of anchors."""
    try:
        whole, loss = make_loss(loss_class), make_loss(loss_class, anchors_per_block=5)
        if whole.layers:  # with weights of its own
            return bool(np.isfinite(loss.call(*inputs_of(loss))).all())
        return bool(np.allclose(whole.call(*inputs_of(whole)), loss.call(*inputs_of(loss)), rtol=1e-4, atol=1e-6))
    except (ValueError, TypeError):
        return False


def loss_facts(loss_class):
    """Cells of a loss that say what it is and what it takes."""
    loss, options = make_loss(loss_class), inspect.signature(loss_class).parameters
    facts = {"loss": f"`{loss_class.__name__}`", "family": loss_class.__module__.split(".")[2].replace("_", " ")}
    if loss_class is losses.PairLoss:
        return {**facts, "family": "your own function"}
    facts["normalizes"] = yes(is_normalizing(loss))
    facts["learns"] = ", ".join(f"`{type(layer).__name__}`" for layer in loss.layers) if hasattr(loss, "layers") else ""
    if "pairing" in options:
        facts |= {
            "lists": lists_of(loss_class),
            "memory": yes(takes_memory(loss_class)),
            "proxies": yes(takes_proxies(loss_class)),
            "blocks": yes(takes_blocks(loss_class)),
        }
    elif options.keys() & {"base", "losses"}:
        facts |= {name: "as its base" for name in ("normalizes", "lists", "memory", "proxies", "blocks")}
    return facts


def yes(condition):
    """A cell of a condition."""
    return "yes" if condition else "no"


def timed_classes():
    """The first benchmark of each class of losses: class to name."""
    sys.path.append(str(pages.ROOT / "benchmarks"))
    from _peers import ours

    return {type(loss): name for name, loss in reversed(ours().items())}


def times():
    """Cells of time by class of losses: milliseconds in graph mode, and the ratios to the three products."""
    with open(pages.RESULTS / "losses.csv") as file:
        rows = {row["loss"]: row for row in csv.DictReader(file) if TIMED.items() <= row.items()}
    return {
        loss_class: {
            "ms": f"{float(rows[name]['graph_ms']):.1f}",
            "graph": f"{float(rows[name]['graph_over_three_products']):.1f}",
            "XLA": f"{float(rows[name]['xla_over_three_products']):.1f}",
        }
        for loss_class, name in timed_classes().items()
    }


def class_and_note(method):
    """The class of a loss that is compared, and what it is added to if it is the last term of a sum."""
    settings = {name: values[0] for name, values in method.settings.items()}
    loss = method.make(3, **settings)
    if not isinstance(loss, losses.WeightedSumLoss):
        return type(loss), ""
    first, last = loss.settings["losses"]
    return type(last), f" (with `{type(first).__name__}`)"


def compared_rows():
    """Rows of the tests of `studies/references`."""
    for file in sorted((pages.RESULTS / "references").glob("*.csv")):
        if file.stem not in ("protocol", "summary"):
            yield from runner.where(runner.read_rows(file), part="test")


def retrieval():
    """Cells of Recall@1 by class of losses: mean and half of the 95% interval over seeds, for each set."""
    cells, rows = {}, list(compared_rows())
    for name, method in METHODS.items():
        loss_class, note = class_and_note(method)
        if loss_class not in cells:  # the first of a class is the plainest
            cells[loss_class] = {
                data: _recall([row["recall@1"] for row in runner.where(rows, loss=name, data=data)]) + note
                for data in setting.SETS
            }
    return cells


def _recall(values):
    mean, half = setting.interval(values)
    return f"{100 * mean:.1f} ± {100 * half:.1f}"


def public_classes(room, base=object):
    """Public classes of a room that extend a base, by name."""
    members = (getattr(room, name) for name in sorted(room.__all__))
    return [member for member in members if isinstance(member, type) and issubclass(member, base)]


LOSS_COLUMNS = ("loss", "family", "lists", "normalizes", "learns", "memory", "proxies", "blocks", "ms", "graph", "XLA")


def loss_table():
    """The table of all losses."""
    measured, compared = times(), retrieval()
    rows = [
        {**loss_facts(loss_class), **measured.get(loss_class, {}), **compared.get(loss_class, {})}
        for loss_class in public_classes(losses)
        if loss_class.__name__.endswith("Loss")
    ]
    names = {data: f"Recall@1, {data}" for data in setting.SETS}
    return markdown([*LOSS_COLUMNS, *names], rows, {**names, "ms": "ms, graph"})


def markdown(columns, rows, names=None):
    """Dicts as a Markdown table; a cell without a value is empty."""
    head = [(names or {}).get(column, column) for column in columns]
    return runner.markdown(head, [[row.get(column, "") for column in columns] for row in rows])


# Miners


def summary(member):
    """The first sentence of a docstring, or of that of the function which it names as its definition."""
    line = inspect.getdoc(member).splitlines()[0]
    function = re.search(r"see `tfdml\.miners\.(\w+)`", line)
    return summary(getattr(miners, function[1])) if function else line.rstrip(".")


def make_miner(miner_class):
    """A miner with its defaults, or with what it needs."""
    arguments = {
        miners.Composition: ([miners.EasyPositives(), miners.PairMargin()],),
        miners.TargetNeighbors: (np.arange(12)[:, None] // 4 * 4,),
    }
    return miner_class(*arguments.get(miner_class, ()))


def selection(miner, scale=1.0):
    """Where a miner leaves a weight, of the positives and of the negatives of a batch of unit vectors times a scale."""
    batch = pairs.pairs_with(LABELS, scale * UNIT, LABELS, scale * UNIT)
    batch = pairs.all_pairs(LABELS, scale * UNIT) if batch.is_self else pairs.all_pairs(LABELS, scale * UNIT)
    mined = miner(batch)
    return [np.asarray(weights) > 0 for weights in (mined.positive, mined.negative)]


UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)


if __name__ == "__main__":
    print(loss_table())
