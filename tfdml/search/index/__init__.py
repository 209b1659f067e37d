"""Indexes: items in segments that are added, updated, removed, saved and loaded."""
