"""Losses of clusters and class centers."""
