"""Packages that only some functions need."""

import importlib
from typing import Any


def optional_import(module: str, *, feature: str, extra: str) -> Any:
    """A module, imported when a function needs it.

    Args:
        module: name of the module, such as "matplotlib.figure".
        feature: name of the function or class that needs it, for the error message.
        extra: extra of tfdml that installs the package, such as "plots".

    Raises:
        ImportError: the package is not installed; the message names the extra.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{feature} needs {package}: pip install tfdml[{extra}].") from error
