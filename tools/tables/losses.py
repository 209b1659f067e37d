"""The table of losses: what they need and take, tried on a small batch; measured times and retrieval."""

import numpy as np
import tensorflow as tf

from tfdml import layers, losses, pairs
from tfdml.losses.base import FunctionLoss, options_of
from tools.tables.cells import LABELS, X, markdown, public_classes, required_arguments, yes
from tools.tables.measured import RECALL, TIMES, measured_cells, sources

SCALES = (0.3, 1.0, 3.0)  # of embeddings, since some losses are 0 for near pairs or for far ones


def listed_rows(num_pairs=24):
    """Rows of a list of pairs, from near to far ones, again and again."""
    first, second = np.random.default_rng(1).standard_normal((2, num_pairs, 8)) / np.sqrt(8)
    share = np.tile([0.1, 0.4, 0.7, 1.0], num_pairs // 4)[:, None]
    return np.stack([first, (1 - share) * first + share * second], axis=1).reshape(-1, 8).astype("float32")


LISTED = listed_rows()


def base_loss():
    """A loss for losses of losses."""
    return losses.ContrastiveLoss()


ARGUMENTS = {
    "base": base_loss,
    "class_counts": lambda: {0: 4, 1: 4, 2: 4},
    "classes": lambda: 3,
    "dims": lambda: (4, 4),
    "function": lambda: losses.functional.contrastive,
    "losses": lambda: [base_loss(), losses.NCALoss()],
    "tree": lambda: layers.ClassTree(range(3)),
    "uncertainty": lambda: losses.uncertainty.TopK(8),
}
OTHER_ARGUMENTS = {"CascadeLoss": {"shares": (0.5,)}, "MatryoshkaLoss": {"dims": (4, 8)}}


def make_loss(loss_class, **options):
    """A loss of a class with the arguments that its signature has, and with its defaults otherwise."""
    names = ARGUMENTS.keys() & options_of(loss_class)
    if "pairing" in options:
        names -= {"classes"}
    arguments = {name: ARGUMENTS[name]() for name in names}
    return loss_class(**{**arguments, **OTHER_ARGUMENTS.get(loss_class.__name__, {}), **options})


def inputs_of(loss):
    """Labels and predictions of a small batch in the form that a loss takes."""
    family = type(loss).__module__.split(".")[2]
    if family == "distillation":
        return np.flip(X, axis=1).copy(), X
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
    """Whether a loss over the pairing of a list has a gradient in rows of each label."""
    gradients = []
    for scale in SCALES:
        try:
            loss = make_loss(loss_class, pairing=pairing)
            gradients.append(values_and_gradient(loss, labels, scale * LISTED)[1])
        except (ValueError, TypeError):
            return False
    has_gradient = np.any(gradients, axis=(0, 2))
    return all(has_gradient[labels == label].any() for label in np.unique(labels))


def lists_of(loss_class):
    """Data without class ids that a loss learns from."""
    kinds = {
        "pairs": (pairs.labeled_pairs, np.tile(np.repeat([1, 0], 8), 3)),
        "triplets": (pairs.triplet_rows, np.zeros(48, int)),
        "views": (pairs.two_views, np.zeros(48, int)),
    }
    return ", ".join(name for name, (pairing, labels) in kinds.items() if is_learning(loss_class, pairing, labels))


def is_normalizing(loss):
    """Whether a loss of longer embeddings has the same values."""
    labels, x = inputs_of(loss)
    values, *others = (loss.call(labels, scale * x) for scale in (1.0, 3.0, 40.0))
    return all(np.allclose(values, other, rtol=1e-3, atol=1e-5) for other in others)


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


def needs_of(loss):
    """What a loss needs beside embeddings: the meaning of its labels, and arguments without a default."""
    family, options = type(loss).__module__.split(".")[2], options_of(type(loss))
    labels = {"distillation": "embeddings of a teacher", "pair_scores": "labels of pairs"}.get(family, "class ids")
    towers = ["two towers"] if getattr(loss, "pairing", None) is pairs.two_towers else []
    classes = ["`classes`"] if "classes" in options else []
    return ", ".join([labels, *towers, *required_arguments(type(loss)), *classes])


def layers_of(loss):
    """Names of the layers that a loss holds, which it learns or remembers."""
    names = (type(layer).__name__.strip("_") for layer in getattr(loss, "layers", []))
    return ", ".join(dict.fromkeys(names))


BY_PAIRS = ("normalizes", "lists", "memory", "proxies", "blocks")


def loss_facts(loss_class):
    """Cells of a loss that say what it needs and what it takes."""
    loss, options = make_loss(loss_class), set(options_of(loss_class))
    facts = {"loss": f"`{loss_class.__name__}`", "needs": needs_of(loss), "layers": layers_of(loss)}
    if loss_class is losses.PairLoss:
        return facts
    if options & {"base", "losses"}:
        return facts | dict.fromkeys(BY_PAIRS, "as its base")
    if loss_class.__module__.split(".")[2] == "pair_scores":
        return facts
    facts["normalizes"] = yes(is_normalizing(loss))
    if "pairing" not in options:
        return facts
    return facts | {
        "lists": lists_of(loss_class),
        "memory": yes(takes_memory(loss_class)),
        "proxies": yes("classes" in options or takes_proxies(loss_class)),
        "blocks": yes(takes_blocks(loss_class)),
    }


NEEDS = ("needs", "lists", "normalizes", "proxies", "memory", "blocks", "layers")
COLUMNS = ("loss", *RECALL.values(), *NEEDS, *TIMES)  # a narrow screen shows the first ones


def table():
    """The table of all losses, and what its numbers were measured on."""
    cells = measured_cells()
    rows = [{**loss_facts(loss), **cells.get(loss, {})} for loss in public_classes(losses, FunctionLoss)]
    return f"{markdown(COLUMNS, rows)}\n\n{sources()}"
