"""Refinement of a search: re-ranking, query expansion, whitening."""
