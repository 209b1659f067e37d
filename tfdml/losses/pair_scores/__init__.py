"""Losses of the scores of a model of pairs, labeled 1 or -1."""
