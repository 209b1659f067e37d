"""Losses of ranked lists and of distributions of similarities."""
