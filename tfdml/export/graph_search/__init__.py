"""Nearest-neighbor search inside a TensorFlow graph."""
