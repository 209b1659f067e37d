"""Retrieval metrics: ranks of relevant items, ties, and the measures computed from them."""
