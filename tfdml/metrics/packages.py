"""Packages that only some metrics need."""

import importlib
from typing import Any


def evaluation_package(name: str) -> Any:
    """A module of scikit-learn or scipy, imported when it is needed.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"This metric needs {name}, which is not installed. Install it: pip install tfdml[evaluation]."
        ) from error
