"""Product search: objects in scenes search a catalog of products."""

from recipes.product_search.painting import scenes

__all__ = ["scenes"]
