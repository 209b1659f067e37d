"""Exact search in vectors that stay on disk."""
