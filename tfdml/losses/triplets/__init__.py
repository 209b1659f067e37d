"""Losses of triplets and quadruplets."""
