"""Localization: a photo of a place finds the tile of a map that shows it."""

from recipes.localization.tiles import map_tiles

__all__ = ["map_tiles"]
