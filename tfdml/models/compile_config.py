"""Repairs of the config of `compile` as Keras saves it."""

import json
from typing import Any


def with_shared_objects(config: dict[str, Any]) -> dict[str, Any]:
    """The config of `compile` with equal marks on all occurrences of a shared object; Keras may lose the first mark."""
    config = json.loads(json.dumps(config))
    marked = {_described(item) for item in _objects(config) if "shared_object_id" in item}
    mark = {text: number for number, text in enumerate(sorted(marked))}
    for item in _objects(config):
        if _described(item) in mark:
            item["shared_object_id"] = mark[_described(item)]
    return config


def with_public_optimizers(config: dict[str, Any]) -> dict[str, Any]:
    """The config of `compile` with the optimizers of `keras.optimizers` in place of the classes of PyTorch alone."""
    for item in _objects(config):
        if str(item.get("module")).startswith("keras.src.backend.torch.optimizers"):
            item.update(module="keras.optimizers", registered_name=None)
    return config


def _objects(config):
    """Every serialized object in a config, at any depth."""
    items = config.values() if isinstance(config, dict) else config if isinstance(config, list) else []
    if isinstance(config, dict) and isinstance(config.get("config"), dict):
        yield config
    for item in items:
        yield from _objects(item)


def _described(item):
    """A serialized object as text, without marks: texts of the same object are equal."""
    return json.dumps(json.loads(json.dumps(item), object_hook=_unmarked), sort_keys=True)


def _unmarked(config):
    return {name: value for name, value in config.items() if name != "shared_object_id"}
