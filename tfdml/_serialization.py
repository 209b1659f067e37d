"""What is saved in Keras files: registered names, and frozen dataclasses of settings."""

from dataclasses import fields
from typing import Any, Self

import keras

serializable = keras.saving.register_keras_serializable("tfdml")


def renamed(config: dict[str, Any], **names: str) -> dict[str, Any]:
    """A config in which options of earlier versions have their current names: `renamed(config, old="new")`."""
    return {names.get(option, option): value for option, value in config.items()}


class Settings:
    """`get_config` and `from_config` of a dataclass, for Keras."""

    def get_config(self) -> dict[str, Any]:
        """The settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The object that `get_config` described."""
        return cls(**config)
