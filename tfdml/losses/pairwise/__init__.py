"""Losses of pairs: independent pairs, lifted structures, softmax over a batch, and regularizers."""
