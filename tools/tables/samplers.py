"""The table of samplers: their batches, and what is known of the pairs in them."""

import contextlib
import dataclasses
import inspect

import numpy as np

from tfdml import importance, samplers
from tools.tables.cells import LABELS, markdown, public_classes

SIZES = {
    "anchors_per_batch": 4,
    "batch_size": 6,
    "classes_per_batch": 2,
    "classes_per_super_class": 1,
    "entries": np.arange(12).reshape(6, 2),
    "examples_per_class": 2,
    "pairs_per_batch": 3,
    "positive_fraction": 0.5,
    "queries": 1,
    "shots": 1,
    "super_classes": {0: 0, 1: 0, 2: 1},
    "super_classes_per_batch": 2,
    "ways": 2,
    "weights": (1, 1),
}


def make_sampler(sampler_class):
    """A sampler of small batches, with the arguments that have no default."""
    uniform = samplers.UniformSampler(batch_size=4)
    others = {
        "centers": samplers.ClassCenters(LABELS, dim=8),
        "pairs": samplers.MinedPairs(LABELS),
        "sampler": uniform,
        "samplers": (uniform, uniform),
    }
    return sampler_class(**{name: (SIZES | others)[name] for name in required_fields(sampler_class)})


def required_fields(sampler_class):
    """Names of the fields of a dataclass that have no default."""
    missing = dataclasses.MISSING
    return [
        field.name for field in dataclasses.fields(sampler_class) if field.default is field.default_factory is missing
    ]


def batches_of(sampler, **options):
    """The row numbers of the first batches of a stream, `(3, ...)`."""
    labels = (LABELS, LABELS) if isinstance(sampler, samplers.TwoSetSampler) else LABELS
    rows = sampler.index_batches(labels, **options)[:3]
    return np.stack(rows, axis=1) if isinstance(rows, tuple) else rows


def resumption(sampler):
    """Whether a stream may start at any step, and whether batches also depend on what a model has learned."""
    if not np.array_equal(batches_of(sampler, start=2)[0], batches_of(sampler)[2]):
        return "no"
    settings = (getattr(sampler, name) for name in required_fields(type(sampler)))
    return "from the same embeddings" if any(hasattr(setting, "refresh") for setting in settings) else "at any step"


def pair_probabilities(sampler):
    """Whether the probabilities of pairs have a closed form, or can be estimated from batches."""
    kinds = {
        "closed form": sampler.pair_probabilities,
        "simulated": lambda labels: importance.simulated_probabilities(sampler, labels, batches=1000),
    }
    for kind, probabilities in kinds.items():
        with contextlib.suppress(ValueError, TypeError):
            probabilities(LABELS)
            return kind
    return "none"


def row(sampler_class):
    """Cells of a sampler."""
    sampler = make_sampler(sampler_class)
    return {
        "sampler": f"`{sampler_class.__name__}`",
        "a batch": inspect.getdoc(sampler_class).splitlines()[0].rstrip("."),
        "needs": ", ".join(f"`{name}`" for name in required_fields(sampler_class)),
        "pairing": f"`{sampler.pairing.__name__}`",
        "resumes": resumption(sampler),
        "pair probabilities": pair_probabilities(sampler),
    }


def table():
    """The table of all samplers."""
    rows = [row(member) for member in public_classes(samplers, samplers.Sampler) if member is not samplers.Sampler]
    return markdown(list(rows[0]), rows)
