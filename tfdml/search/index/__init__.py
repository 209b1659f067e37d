"""Indexes: items in segments: add, update, remove, save and load."""
