"""A small batch on which classes are tried, and cells of Markdown tables."""

import inspect

import numpy as np

from studies import runner

LABELS = np.repeat(np.arange(3), 4)
X = np.random.default_rng(0).standard_normal((12, 8)).astype("float32") / np.sqrt(8)


def required_arguments(member):
    """Names of the arguments of a class that have no default, as code."""
    options = inspect.signature(member).parameters.values()
    return [
        f"`{option.name}`" for option in options if option.default is option.empty and option.kind != option.VAR_KEYWORD
    ]


def public_classes(room, base=object):
    """Public classes of a room that extend a base, by name."""
    members = (getattr(room, name) for name in sorted(room.__all__))
    return [member for member in members if isinstance(member, type) and issubclass(member, base)]


def yes(condition):
    """A cell of a condition."""
    return "yes" if condition else "no"


def markdown(columns, rows):
    """Dicts as a Markdown table; a cell without a value is empty."""
    return runner.markdown(columns, [[row.get(column, "") for column in columns] for row in rows])
