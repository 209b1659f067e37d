"""How a frozen dataclass of settings is saved with the loss that holds it."""

from dataclasses import fields


class Settings:
    """`get_config` and `from_config` of a dataclass, for Keras."""

    def get_config(self):
        """The settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_config(cls, config):
        """The object that `get_config` described."""
        return cls(**config)
