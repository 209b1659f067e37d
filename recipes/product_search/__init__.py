"""Product search: objects in scenes search a catalog of products, and tiles of one photograph each other."""

from recipes.product_search.painting import scenes
from recipes.product_search.tiles import others, tiles

__all__ = ["others", "scenes", "tiles"]
