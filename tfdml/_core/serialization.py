"""Serialization for Keras: the registration of classes and functions, and dataclasses of settings."""

from dataclasses import fields
from typing import Any, Self

import keras

from tfdml._core.checks import require_declared

serializable = keras.saving.register_keras_serializable("tfdml")


class Settings:
    """`get_config` and `from_config` for a dataclass, whose declared numbers are finite numbers."""

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """An object whose settings are as they are declared."""
        require_declared(cls.__init__, arguments, options)
        return super().__new__(cls)

    def get_config(self) -> dict[str, Any]:
        """The settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Build an object from the result of `get_config`."""
        return cls(**config)
