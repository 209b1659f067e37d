"""The table of miners and selectors of negatives: what they keep of a small batch."""

import inspect

import keras
import numpy as np

from tfdml import layers, losses, miners, pairs
from tools.tables.cells import markdown, public_classes, required_arguments, yes


def unit_vectors(labels):
    """Unit vectors, those of a class near each other, so that some pairs are easy and some are hard."""
    generator = np.random.default_rng(0)
    centers = generator.standard_normal((labels.max() + 1, 8))
    spread = np.tile([0.05, 0.05, 0.4, 0.8, 1.2], len(labels) // 5)[:, None]
    x = centers[labels] + spread * generator.standard_normal((len(labels), 8))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")


LABELS = np.repeat(np.arange(12), 5)
UNIT = unit_vectors(LABELS)
ARGUMENTS = {
    miners.TargetNeighbors: {"neighbors": np.arange(60)[:, None] // 5 * 5},  # the first of each class
}


def make_miner(miner_class):
    """A miner with its defaults, or with what it needs."""
    seed = {"seed": 0} if "seed" in inspect.signature(miner_class).parameters else {}
    return miner_class(**ARGUMENTS.get(miner_class, seed))


def is_selector(miner):
    """Whether it selects negatives for the triplet loss, instead of changing the weights of pairs."""
    try:
        losses.TripletLoss(negatives=miner).call(LABELS, UNIT)
    except (ValueError, TypeError):
        return False
    return True


def every_pair(pairs):
    """The pairs as they are."""
    return pairs


def weights_of(miner, scale=1.0):
    """The weights of positives and of negatives after mining, of unit vectors times a scale."""
    options = {}
    labels = LABELS
    if isinstance(miner, miners.TargetNeighbors):  # also takes the index of each example
        labels, options = np.stack([LABELS, np.arange(60)], axis=1), {"match": layers.boundaries.same_class}
    mined = miner(pairs.all_pairs(labels, scale * UNIT, **options))
    return np.asarray(mined.positive), np.asarray(mined.negative)


def share(before, after):
    """In a word, which weights are left."""
    if (before == after).all():
        return "all"
    return "some" if np.isin(after, (0, 1)).all() else "some, with weights"


def dependence_on_norms(miner_class):
    """Whether a selection differs for shorter embeddings."""
    try:
        mined = [weights_of(make_miner(miner_class), scale) for scale in (1.0, 0.3)]
    except ValueError:
        return "must be 1"
    return yes(not all(map(np.array_equal, *mined)))


def miner_row(miner_class):
    """Cells of a miner."""
    miner = make_miner(miner_class)
    row = {"miner": f"`{miner_class.__name__}`", "selects": inspect.getdoc(miner_class).splitlines()[0].rstrip(".")}
    row |= {"needs": ", ".join(required_arguments(miner_class))}
    if is_selector(miner):
        row |= {"used as": "`negatives=` of `TripletLoss`"}
    else:
        before, after, again = weights_of(every_pair), weights_of(miner), weights_of(miner)
        row |= dict(zip(("positives", "negatives"), map(share, before, after), strict=True))
        row |= {"used as": "`miner=` of any loss", "norms matter": dependence_on_norms(miner_class)}
        row |= {"random": yes(not all(map(np.array_equal, after, again)))}
    variables = miner.variables if isinstance(miner, keras.Layer) else []
    return row | {"state": yes(bool(variables))}


MINER_COLUMNS = ("miner", "selects", "used as", "needs", "positives", "negatives", "norms matter", "random", "state")


def table():
    """The table of all miners and selectors of negatives."""
    return markdown(MINER_COLUMNS, map(miner_row, public_classes(miners)))
