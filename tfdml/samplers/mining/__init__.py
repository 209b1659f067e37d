"""Samplers of hard classes, pairs and triplets that a search has found."""
