"""Embeddings of sets of any size, in memory and in files; their functions are public in `tfdml.models`."""
