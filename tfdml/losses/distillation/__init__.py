"""Losses of a teacher: the labels are its embeddings of the batch."""
