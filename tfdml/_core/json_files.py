"""JSON of files that other programs may have written: every fault is a ValueError that names the file."""

import json
from pathlib import Path
from typing import Any


def parsed_json(text: str | bytes, source: str, form: type = dict) -> Any:
    """The value of a JSON text or of UTF-8 bytes; a ValueError names its source if it has another form."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ValueError(f"Received {source}, which is not JSON ({reason}). Write it again.") from error
    if not isinstance(value, form):
        raise ValueError(
            f"Received {source} with a {type(value).__name__}, expected a {form.__name__}. Write it again."
        )
    return value


def read_json(path: Path, form: type = dict) -> Any:
    """The value of a JSON file, as `parsed_json`."""
    return parsed_json(path.read_bytes(), repr(str(path)), form)
